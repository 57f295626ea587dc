// Rows brought towards given moments; `op/alignment.rs` has the formulas and their letters. One block does all of it,
// a thread its channels: rows are few, and the weight takes every channel. NaN passes every bound, as on the CPU.

// The least variance of a channel.
#define LEAST 1e-8

struct By {
    float share, rows, target_rows, shrinkage, stretch;
};

template <class T>
__device__ __forceinline__ void align(By by, const T *x, const float *running, const float *target, T *out, float *next,
                                      float *weight, int rows, int d) {
    double total = 0.0;
    for (int c = threadIdx.x; c < d; c += blockDim.x) {
        float m = running[c], q = running[d + c];
        if (by.share != 0.0f) {
            double sum = 0.0, squares = 0.0;
#pragma unroll 8
            for (int row = 0; row < rows; row++) {
                double value = widen(x[(i64)row * d + c]);
                sum += value;
                squares += value * value;
            }
            m += by.share * ((float)(sum / rows) - m);
            q += by.share * ((float)(squares / rows) - q);
        }
        next[c] = m;
        next[d + c] = q;
        double shift = (double)m - target[c];
        total += shift * shift / target[d + c];
    }
    double apart = block_sum(total) / d, chance = 1.0 / by.rows + 1.0 / by.target_rows;
    double w = apart <= chance ? 0.0 : 1.0 - chance / apart;
    if (threadIdx.x == 0) *weight = (float)w;
    for (int c = threadIdx.x; c < d; c += blockDim.x) {
        double m = next[c], q = next[d + c] - m * m, mu = target[c], variance = target[d + c];
        double v = (by.rows * (q < LEAST ? LEAST : q) + by.shrinkage * variance) / ((double)by.rows + by.shrinkage);
        double a = sqrt(variance / v);
        if (a > by.stretch) a = by.stretch;
        float scale = (float)(1.0 + w * (a - 1.0)), added = (float)(w * (mu - m * a));
#pragma unroll 8
        for (int row = 0; row < rows; row++) {
            i64 at = (i64)row * d + c;
            out[at] = narrow<T>(widen(x[at]) * scale + added);
        }
    }
}

#define ALIGN(name, T)                                                                                             \
    extern "C" __global__ void align_##name(By by, const T *x, const float *running, const float *target, T *out,  \
                                            float *next, float *weight, int rows, int d) {                         \
        after_earlier_work();                                                                                      \
        align(by, x, running, target, out, next, weight, rows, d);                                                 \
    }

ALIGN(f32, float)
ALIGN(bf16, bf16)

// Σ f(x) over `count` tokens of an image, in every thread of a channel's column of LANES.
template <class T, class F>
__device__ float over_tokens(const T *x, int count, int d, bool inside, F f) {
    __shared__ float part[LANES][COLUMNS];
    float sum = 0.0f;
    if (inside)
        for (int i = threadIdx.y; i < count; i += LANES) sum += f(widen(x[(i64)i * d]));
    __syncthreads();
    part[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int lane = 0; lane < LANES; lane++) sum += part[lane][threadIdx.x];
    return sum;
}

// Mean and variance of each channel over the tokens of an image, `first` and those after it; a row of blocks for each
// image.
template <class T>
__device__ void token_moments(const T *x, float *mean, float *variance, int n, int first, int d) {
    int c = blockIdx.x * COLUMNS + threadIdx.x, count = n - first;
    bool inside = c < d;
    x += ((i64)blockIdx.y * n + first) * d + c;
    float m = over_tokens(x, count, d, inside, [](float x) { return x; }) / count;
    float v = over_tokens(x, count, d, inside, [m](float x) { return (x - m) * (x - m); }) / count;
    if (threadIdx.y == 0 && inside) {
        mean[blockIdx.y * d + c] = m;
        variance[blockIdx.y * d + c] = v;
    }
}

#define TOKEN_MOMENTS(name, T)                                                                                     \
    extern "C" __global__ void token_moments_##name(const T *x, float *mean, float *variance, int n, int first,    \
                                                    int d) {                                                       \
        after_earlier_work();                                                                                      \
        token_moments(x, mean, variance, n, first, d);                                                             \
    }

TOKEN_MOMENTS(f32, float)
TOKEN_MOMENTS(bf16, bf16)

// Rows of the last axis, one warp each: layer norm, softmax, L2 normalisation, and their gradients.

#define ROW_OF_WARP(row, rows)                                        \
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;      \
    int lane = threadIdx.x % 32;                                      \
    if (row >= rows) return;

// One row held in registers, V neighbouring elements at a time; elements past the end are zero.
template <int CHUNKS, int V>
struct Row {
    float v[CHUNKS][V];

    template <class T>
    __device__ __forceinline__ void load(const T *x, int d, int lane) {
        const int N = 16 / (int)sizeof(T);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            int i = (c * 32 + lane) * V;
#pragma unroll
            for (int j = 0; j < V; j += N) {
                Pack<T, N> p = {};
                if (i < d) p = *(const Pack<T, N> *)(x + i + j);
                for (int k = 0; k < N; k++) v[c][j + k] = widen(p.v[k]);
            }
        }
    }

    template <class T>
    __device__ __forceinline__ void store(T *out, int d, int lane) const {
        const int N = 16 / (int)sizeof(T);
#pragma unroll
        for (int c = 0; c < CHUNKS; c++) {
            int i = (c * 32 + lane) * V;
#pragma unroll
            for (int j = 0; j < V && i < d; j += N) {
                Pack<T, N> p;
                for (int k = 0; k < N; k++) p.v[k] = narrow<T>(v[c][j + k]);
                *(Pack<T, N> *)(out + i + j) = p;
            }
        }
    }
};

// Elements of one load of 16 bytes. A kernel of CHUNKS chunks holds rows of up to 32 * V * CHUNKS elements.
#define V_OF(T) (16 / (int)sizeof(T))
#define EACH(c, j) _Pragma("unroll") for (int c = 0; c < CHUNKS; c++) _Pragma("unroll") for (int j = 0; j < V; j++)
#define INSIDE(c, d) ((c * 32 + lane) * V < d)

template <class T, int CHUNKS>
__device__ void layer_norm(const T *x, const float *gamma, const float *beta, float eps, T *out, float *stats,
                           int rows, int d) {
    const int V = V_OF(T);
    ROW_OF_WARP(row, rows)
    Row<CHUNKS, V> r, affine;
    r.load(x + (i64)row * d, d, lane);
    float sum = 0.0f, squares = 0.0f;
    EACH(c, j) sum += r.v[c][j];
    float mean = warp_sum(sum) / d;
    EACH(c, j) squares += INSIDE(c, d) ? (r.v[c][j] - mean) * (r.v[c][j] - mean) : 0.0f;
    float rstd = 1.0f / sqrtf(warp_sum(squares) / d + eps);
    affine.load(gamma, d, lane);
    EACH(c, j) r.v[c][j] = (r.v[c][j] - mean) * rstd * affine.v[c][j];
    affine.load(beta, d, lane);
    EACH(c, j) r.v[c][j] += affine.v[c][j];
    r.store(out + (i64)row * d, d, lane);
    if (lane == 0) {
        stats[2 * row] = mean;
        stats[2 * row + 1] = rstd;
    }
}

// dx = rstd (g - mean(g) - x̂ mean(g x̂)) with g = dy γ, plus `earlier` where it is not null.
template <class T, class G, int CHUNKS>
__device__ void layer_norm_backward(const T *x, const float *stats, const float *gamma, const G *grad,
                                    const T *earlier, T *dx, int rows, int d) {
    const int V = V_OF(T);
    ROW_OF_WARP(row, rows)
    Row<CHUNKS, V> r, g, scale;
    r.load(x + (i64)row * d, d, lane);
    g.load(grad + (i64)row * d, d, lane);
    scale.load(gamma, d, lane);
    float mean = stats[2 * row], rstd = stats[2 * row + 1], m1 = 0.0f, m2 = 0.0f;
    EACH(c, j) {
        r.v[c][j] = (r.v[c][j] - mean) * rstd;
        g.v[c][j] *= scale.v[c][j];
        m1 += g.v[c][j];
        m2 += g.v[c][j] * r.v[c][j];
    }
    m1 = warp_sum(m1) / d;
    m2 = warp_sum(m2) / d;
    EACH(c, j) r.v[c][j] = rstd * (g.v[c][j] - m1 - r.v[c][j] * m2);
    if (earlier) {
        g.load(earlier + (i64)row * d, d, lane);
        EACH(c, j) r.v[c][j] += g.v[c][j];
    }
    r.store(dx + (i64)row * d, d, lane);
}

// Rows whose length is no multiple of a pack, or too long for registers.
template <class T>
__device__ void layer_norm_any(const T *x, const float *gamma, const float *beta, float eps, T *out, float *stats,
                               int rows, int d) {
    ROW_OF_WARP(row, rows)
    x += (i64)row * d;
    out += (i64)row * d;
    float sum = 0.0f, squares = 0.0f;
    for (int i = lane; i < d; i += 32) sum += widen(x[i]);
    float mean = warp_sum(sum) / d;
    for (int i = lane; i < d; i += 32) squares += (widen(x[i]) - mean) * (widen(x[i]) - mean);
    float rstd = 1.0f / sqrtf(warp_sum(squares) / d + eps);
    for (int i = lane; i < d; i += 32) out[i] = narrow<T>((widen(x[i]) - mean) * rstd * gamma[i] + beta[i]);
    if (lane == 0) {
        stats[2 * row] = mean;
        stats[2 * row + 1] = rstd;
    }
}

template <class T, class G>
__device__ void layer_norm_backward_any(const T *x, const float *stats, const float *gamma, const G *grad,
                                        const T *earlier, T *dx, int rows, int d) {
    ROW_OF_WARP(row, rows)
    x += (i64)row * d;
    grad += (i64)row * d;
    float mean = stats[2 * row], rstd = stats[2 * row + 1], m1 = 0.0f, m2 = 0.0f;
    for (int i = lane; i < d; i += 32) {
        float g = widen(grad[i]) * gamma[i];
        m1 += g;
        m2 += g * (widen(x[i]) - mean) * rstd;
    }
    m1 = warp_sum(m1) / d;
    m2 = warp_sum(m2) / d;
    for (int i = lane; i < d; i += 32) {
        float g = widen(grad[i]) * gamma[i];
        float sum = earlier ? widen(earlier[(i64)row * d + i]) : 0.0f;
        dx[(i64)row * d + i] = narrow<T>(rstd * (g - m1 - (widen(x[i]) - mean) * rstd * m2) + sum);
    }
}

#define NORM_ARGS(T) const T *x, const float *gamma, const float *beta, float eps, T *out, float *stats, int rows, int d
#define BACK_ARGS(T, G) const T *x, const float *stats, const float *gamma, const G *grad, const T *earlier, T *dx, \
                        int rows, int d
#define NORM(name, T, CHUNKS)                                                                  \
    extern "C" __global__ void layer_norm_##name##_##CHUNKS(NORM_ARGS(T)) {                    \
        after_earlier_work();                                                                  \
        layer_norm<T, CHUNKS>(x, gamma, beta, eps, out, stats, rows, d);                       \
    }
#define BACK(name, T, G, CHUNKS)                                                               \
    extern "C" __global__ void layer_norm_backward_##name##_##CHUNKS(BACK_ARGS(T, G)) {        \
        after_earlier_work();                                                                  \
        layer_norm_backward<T, G, CHUNKS>(x, stats, gamma, grad, earlier, dx, rows, d);                 \
    }
#define SIZES(CHUNKS)                                                                          \
    NORM(f32, float, CHUNKS) NORM(bf16, bf16, CHUNKS)                                          \
    BACK(f32_f32, float, float, CHUNKS) BACK(bf16_f32, bf16, float, CHUNKS)                    \
    BACK(bf16_bf16, bf16, bf16, CHUNKS)
SIZES(1) SIZES(2) SIZES(3) SIZES(4) SIZES(6)

#define ANY(name, T)                                                                           \
    extern "C" __global__ void layer_norm_##name##_any(NORM_ARGS(T)) {                         \
        after_earlier_work();                                                                  \
        layer_norm_any<T>(x, gamma, beta, eps, out, stats, rows, d);                           \
    }
#define BACK_ANY(name, T, G)                                                                   \
    extern "C" __global__ void layer_norm_backward_##name##_any(BACK_ARGS(T, G)) {             \
        after_earlier_work();                                                                  \
        layer_norm_backward_any<T, G>(x, stats, gamma, grad, earlier, dx, rows, d);                     \
    }
ANY(f32, float) ANY(bf16, bf16)
BACK_ANY(f32_f32, float, float) BACK_ANY(bf16_f32, bf16, float) BACK_ANY(bf16_bf16, bf16, bf16)

extern "C" __global__ void softmax(const float *x, float *out, int rows, int d) {
    after_earlier_work();
    ROW_OF_WARP(row, rows)
    x += (i64)row * d;
    out += (i64)row * d;
    float top = -INFINITY, sum = 0.0f;
    for (int i = lane; i < d; i += 32) top = fmaxf(top, x[i]);
    top = warp_max(top);
    for (int i = lane; i < d; i += 32) sum += expf(x[i] - top);
    float factor = 1.0f / warp_sum(sum);
    for (int i = lane; i < d; i += 32) out[i] = expf(x[i] - top) * factor;
}

// dx = y (dy - <y, dy>).
extern "C" __global__ void softmax_backward(const float *y, const float *grad, float *dx, int rows, int d) {
    after_earlier_work();
    ROW_OF_WARP(row, rows)
    y += (i64)row * d;
    grad += (i64)row * d;
    float inner = 0.0f;
    for (int i = lane; i < d; i += 32) inner += y[i] * grad[i];
    inner = warp_sum(inner);
    for (int i = lane; i < d; i += 32) dx[(i64)row * d + i] = y[i] * (grad[i] - inner);
}

extern "C" __global__ void log_softmax(const float *x, float *out, int rows, int d) {
    after_earlier_work();
    ROW_OF_WARP(row, rows)
    x += (i64)row * d;
    float top = -INFINITY, sum = 0.0f;
    for (int i = lane; i < d; i += 32) top = fmaxf(top, x[i]);
    top = warp_max(top);
    for (int i = lane; i < d; i += 32) sum += expf(x[i] - top);
    float lse = top + logf(warp_sum(sum));
    for (int i = lane; i < d; i += 32) out[(i64)row * d + i] = x[i] - lse;
}

// dx = dy - exp(y) Σ dy.
extern "C" __global__ void log_softmax_backward(const float *y, const float *grad, float *dx, int rows, int d) {
    after_earlier_work();
    ROW_OF_WARP(row, rows)
    y += (i64)row * d;
    grad += (i64)row * d;
    float total = 0.0f;
    for (int i = lane; i < d; i += 32) total += grad[i];
    total = warp_sum(total);
    for (int i = lane; i < d; i += 32) dx[(i64)row * d + i] = grad[i] - expf(y[i]) * total;
}

extern "C" __global__ void l2_normalize(const float *x, float *out, float *factor, int rows, int d) {
    after_earlier_work();
    ROW_OF_WARP(row, rows)
    x += (i64)row * d;
    float squares = 0.0f;
    for (int i = lane; i < d; i += 32) squares += x[i] * x[i];
    squares = warp_sum(squares);
    // Not `fmaxf`, which would turn a NaN into the clamp.
    float f = 1.0f / sqrtf(squares < 1e-12f ? 1e-12f : squares);
    for (int i = lane; i < d; i += 32) out[(i64)row * d + i] = x[i] * f;
    if (lane == 0) factor[row] = f;
}

// dx = f (dy - y <y, dy>); where the norm was clamped, dx = f dy.
extern "C" __global__ void l2_normalize_backward(const float *y, const float *factor, const float *grad, float *dx,
                                                 int rows, int d) {
    after_earlier_work();
    ROW_OF_WARP(row, rows)
    y += (i64)row * d;
    grad += (i64)row * d;
    float inner = 0.0f, f = factor[row];
    for (int i = lane; i < d; i += 32) inner += y[i] * grad[i];
    inner = f >= 1e6f ? 0.0f : warp_sum(inner);
    for (int i = lane; i < d; i += 32) dx[(i64)row * d + i] = f * (grad[i] - y[i] * inner);
}

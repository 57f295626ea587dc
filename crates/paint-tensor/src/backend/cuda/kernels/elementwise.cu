// Functions of single elements. The numbers UNARY_* and BINARY_* of the functions come from the host.

__device__ __forceinline__ float normal_cdf(float x) { return 0.5f * (1.0f + erff(x * 0.70710678f)); }
__device__ __forceinline__ float normal_pdf(float x) { return 0.39894228f * expf(-0.5f * x * x); }

// Finite where e^x overflows, as on the CPU; NaN stays NaN.
__device__ __forceinline__ float finite_exp(float x) { return expf(x > 88.3f ? 88.3f : x); }

// x σ(u) and its derivative, for u and du/dx.
__device__ __forceinline__ float gated(float x, float u) { return x / (1.0f + finite_exp(-u)); }
__device__ __forceinline__ float gated_slope(float x, float u, float rise) {
    float gate = 1.0f / (1.0f + finite_exp(-u));
    return gate + x * gate * (1.0f - gate) * rise;
}

// The argument of the sigmoid that is the tanh form of GELU, and its derivative.
__device__ __forceinline__ float tanh_argument(float x) { return 1.5957691f * x * (1.0f + 0.044715f * x * x); }
__device__ __forceinline__ float tanh_rise(float x) { return 1.5957691f * (1.0f + 0.134145f * x * x); }

__device__ __forceinline__ float of_one(int op, float x, float argument) {
    switch (op) {
        case UNARY_EXP: return finite_exp(x);
        case UNARY_LOG: return logf(x);
        case UNARY_SQRT: return sqrtf(x);
        case UNARY_RELU: return relu(x);
        case UNARY_STEP: return step(x);
        case UNARY_GELU: return x * normal_cdf(x);
        case UNARY_GELU_SLOPE: return normal_cdf(x) + x * normal_pdf(x);
        case UNARY_GELU_TANH: return gated(x, tanh_argument(x));
        case UNARY_GELU_TANH_SLOPE: return gated_slope(x, tanh_argument(x), tanh_rise(x));
        case UNARY_SWISH: return gated(x, argument * x);
        case UNARY_SWISH_SLOPE: return gated_slope(x, argument * x, argument);
        case UNARY_SCALE: return x * argument;
        case UNARY_ADD_SCALAR:
        default: return x + argument;
    }
}

__device__ __forceinline__ float of_two(int op, float a, float b) {
    switch (op) {
        case BINARY_ADD: return a + b;
        case BINARY_SUB: return a - b;
        case BINARY_MUL: return a * b;
        case BINARY_DIV:
        default: return a / b;
    }
}

extern "C" __global__ void fill(float *out, float value, i64 n) {
    after_earlier_work();
    FOR_ELEMENTS(i, n) out[i] = value;
}

extern "C" __global__ void unary(int op, float argument, const float *x, float *out, i64 n) {
    after_earlier_work();
    FOR_ELEMENTS(i, n) out[i] = of_one(op, x[i], argument);
}

// Up to 16 bytes of each operand at a time, then the rest element by element. Buffers begin at multiples of 16 bytes.
template <class A, class B, class O, class F>
__device__ __forceinline__ void zip(const A *a, const B *b, O *out, i64 n, F f) {
    const int N = sizeof(A) + sizeof(B) + sizeof(O) == 6 ? 8 : 4;
    i64 packs = n / N;
    FOR_ELEMENTS(i, packs) {
        Pack<A, N> x = ((const Pack<A, N> *)a)[i];
        Pack<B, N> y = ((const Pack<B, N> *)b)[i];
        Pack<O, N> z;
        for (int j = 0; j < N; j++) z.v[j] = narrow<O>(f(widen(x.v[j]), widen(y.v[j])));
        ((Pack<O, N> *)out)[i] = z;
    }
    i64 rest = packs * N + (i64)blockIdx.x * blockDim.x + threadIdx.x;
    if (rest < n) out[rest] = narrow<O>(f(widen(a[rest]), widen(b[rest])));
}

#define BINARY(name, A, B, O)                                                                              \
    extern "C" __global__ void binary_##name(int op, const A *a, const B *b, O *out, i64 n) {              \
        after_earlier_work();                                                                              \
        zip(a, b, out, n, [op](float x, float y) { return of_two(op, x, y); });                            \
    }
BINARY(f32_f32, float, float, float)
BINARY(f32_bf16, float, bf16, float)
BINARY(bf16_f32, bf16, float, bf16)
BINARY(bf16_bf16, bf16, bf16, bf16)

#define LERP(name, T)                                                                                      \
    extern "C" __global__ void lerp_##name(float weight, const T *a, const T *b, T *out, i64 n) {          \
        after_earlier_work();                                                                              \
        zip(a, b, out, n, [weight](float x, float y) { return x + weight * (y - x); });                    \
    }
LERP(f32, float) LERP(bf16, bf16)

// `index` holds the places as the bits of floats.
extern "C" __global__ void restore(const float *source, const float *index, float *out, i64 n) {
    after_earlier_work();
    FOR_ELEMENTS(i, n) out[__float_as_uint(index[i])] = source[__float_as_uint(index[i])];
}

#define CAST(name, A, O)                                                                     \
    extern "C" __global__ void cast_to_##name(const A *a, O *out, i64 n) {                   \
        after_earlier_work();                                                                \
        zip(a, a, out, n, [](float x, float) { return x; });                                 \
    }
CAST(bf16, float, bf16)
CAST(f32, bf16, float)

// GELU's two factors, Φ and φ. In bf16 the error function is that of Abramowitz and Stegun 7.1.26, which is off by at
// most 1.5e-7 and shares its exponential with φ.
template <class T>
__device__ __forceinline__ void normal(float x, float &cdf, float &pdf) {
    if (sizeof(T) == 4) {
        cdf = normal_cdf(x);
        pdf = normal_pdf(x);
        return;
    }
    float z = fabsf(x) * 0.70710678f, e = __expf(-z * z), t = __fdividef(1.0f, 1.0f + 0.3275911f * z);
    float tail = t * (0.254829592f + t * (-0.284496736f + t * (1.421413741f + t * (-1.453152027f + t * 1.061405429f))));
    float half = 0.5f * tail * e;
    cdf = x < 0.0f ? half : 1.0f - half;
    pdf = 0.39894228f * e;
}

#define ACTIVATION(name, T)                                                                                \
    extern "C" __global__ void gelu_##name(const T *x, T *out, i64 n) {                                    \
        after_earlier_work();                                                                              \
        zip(x, x, out, n, [](float value, float) {                                                         \
            float cdf, pdf;                                                                                \
            normal<T>(value, cdf, pdf);                                                                    \
            return value * cdf;                                                                            \
        });                                                                                                \
    }                                                                                                      \
    extern "C" __global__ void gelu_backward_##name(const T *grad, const T *x, T *out, i64 n) {            \
        after_earlier_work();                                                                              \
        zip(grad, x, out, n, [](float dy, float value) {                                                   \
            float cdf, pdf;                                                                                \
            normal<T>(value, cdf, pdf);                                                                    \
            return dy * (cdf + value * pdf);                                                               \
        });                                                                                                \
    }
ACTIVATION(f32, float)
ACTIVATION(bf16, bf16)

struct Broadcast {
    int rank, size[8], a[8], b[8];
};

// A thread's N results lie side by side on the last axis.
template <int N>
__device__ void broadcast(int op, const Broadcast &axes, const float *a, const float *b, float *out, i64 n) {
    int last = axes.rank - 1, step_a = N > 1 ? axes.a[last] : 0, step_b = N > 1 ? axes.b[last] : 0;
    FOR_ELEMENTS(i, n / N) {
        u32 rest = (u32)i * N, at_a = 0, at_b = 0;
        for (int axis = axes.rank - 1; axis >= 0; axis--) {
            u32 index = rest % (u32)axes.size[axis];
            rest /= (u32)axes.size[axis];
            at_a += index * axes.a[axis];
            at_b += index * axes.b[axis];
        }
        Pack<float, N> z;
        for (int j = 0; j < N; j++) z.v[j] = of_two(op, a[at_a + j * step_a], b[at_b + j * step_b]);
        ((Pack<float, N> *)out)[i] = z;
    }
}
#define BROADCAST(name, N)                                                                                       \
    extern "C" __global__ void binary_broadcast_##name(int op, Broadcast axes, const float *a, const float *b,   \
                                                       float *out, i64 n) {                                      \
        after_earlier_work();                                                                                    \
        broadcast<N>(op, axes, a, b, out, n);                                                                    \
    }
BROADCAST(packs, PACK)
BROADCAST(single, 1)

// Functions of single elements.

enum { EXP, LOG, SQRT, RELU, STEP, GELU, GELU_SLOPE, SCALE, ADD_SCALAR };
enum { ADD, SUB, MUL, DIV };

__device__ __forceinline__ float normal_cdf(float x) { return 0.5f * (1.0f + erff(x * 0.70710678f)); }
__device__ __forceinline__ float normal_pdf(float x) { return 0.39894228f * expf(-0.5f * x * x); }

__device__ __forceinline__ float unary(int op, float x, float argument) {
    switch (op) {
        case EXP: return expf(x);
        case LOG: return logf(x);
        case SQRT: return sqrtf(x);
        case RELU: return x > 0.0f || x != x ? x : 0.0f;
        case STEP: return x > 0.0f ? 1.0f : 0.0f;
        case GELU: return x * normal_cdf(x);
        case GELU_SLOPE: return normal_cdf(x) + x * normal_pdf(x);
        case SCALE: return x * argument;
        default: return x + argument;
    }
}

__device__ __forceinline__ float binary(int op, float a, float b) {
    switch (op) {
        case ADD: return a + b;
        case SUB: return a - b;
        case MUL: return a * b;
        default: return a / b;
    }
}

extern "C" __global__ void fill_f32(float *out, float value, i64 n) {
    FOR_ELEMENTS(i, n) out[i] = value;
}

extern "C" __global__ void unary_f32(int op, float argument, const float *x, float *out, i64 n) {
    FOR_ELEMENTS(i, n) out[i] = unary(op, x[i], argument);
}

// Elements up to 16 bytes at a time: storages begin at multiples of 16 bytes, the rest is done one by one.
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
        zip(a, b, out, n, [op](float x, float y) { return binary(op, x, y); });                            \
    }
BINARY(f32_f32, float, float, float)
BINARY(f32_bf16, float, bf16, float)
BINARY(bf16_f32, bf16, float, bf16)
BINARY(bf16_bf16, bf16, bf16, bf16)

#define LERP(name, T)                                                                                      \
    extern "C" __global__ void lerp_##name(float weight, const T *a, const T *b, T *out, i64 n) {          \
        zip(a, b, out, n, [weight](float x, float y) { return x + weight * (y - x); });                    \
    }
LERP(f32, float) LERP(bf16, bf16)

// `index` holds the places as the bits of floats.
extern "C" __global__ void restore(const float *source, const float *index, float *out, i64 n) {
    FOR_ELEMENTS(i, n) out[__float_as_uint(index[i])] = source[__float_as_uint(index[i])];
}

#define CAST(name, A, O)                                                                     \
    extern "C" __global__ void cast_##name(const A *a, O *out, i64 n) {                      \
        zip(a, a, out, n, [](float x, float) { return x; });                                 \
    }
CAST(f32_bf16, float, bf16)
CAST(bf16_f32, bf16, float)

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
        zip(x, x, out, n, [](float value, float) {                                                         \
            float cdf, pdf;                                                                                \
            normal<T>(value, cdf, pdf);                                                                    \
            return value * cdf;                                                                            \
        });                                                                                                \
    }                                                                                                      \
    extern "C" __global__ void gelu_backward_##name(const T *grad, const T *x, T *out, i64 n) {            \
        zip(grad, x, out, n, [](float dy, float value) {                                                   \
            float cdf, pdf;                                                                                \
            normal<T>(value, cdf, pdf);                                                                    \
            return dy * (cdf + value * pdf);                                                               \
        });                                                                                                \
    }
ACTIVATION(f32, float)
ACTIVATION(bf16, bf16)

struct Axes {
    int rank, size[8], a[8], b[8];
};

extern "C" __global__ void binary_broadcast(int op, Axes axes, const float *a, const float *b, float *out, i64 n) {
    FOR_ELEMENTS(i, n) {
        u32 rest = i, at_a = 0, at_b = 0;
        for (int axis = axes.rank - 1; axis >= 0; axis--) {
            u32 index = rest % (u32)axes.size[axis];
            rest /= (u32)axes.size[axis];
            at_a += index * axes.a[axis];
            at_b += index * axes.b[axis];
        }
        out[i] = binary(op, a[at_a], b[at_b]);
    }
}

// The first velocity is the gradient itself: `velocity` is null then.

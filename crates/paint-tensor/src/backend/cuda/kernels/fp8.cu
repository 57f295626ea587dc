// 8-bit floats: E4M3, up to 448. What is larger counts as 448; infinity becomes NaN, so that it shows.

__device__ __forceinline__ u16 two_floats(float first, float second) {
    u16 out = 0;
#if __CUDA_ARCH__ >= 890
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(out) : "f"(second + (second - second)), "f"(first + (first - first)));
#endif
    return out;
}

// n is a multiple of 8.
extern "C" __global__ void round_input(const bf16 *x, u16 *out, i64 n) {
    after_earlier_work();
    FOR_ELEMENTS(i, n / 8) {
        Pack<bf16, 8> in = ((const Pack<bf16, 8> *)x)[i];
        Pack<u16, 4> rounded;
        for (int j = 0; j < 4; j++) rounded.v[j] = two_floats(widen(in.v[2 * j]), widen(in.v[2 * j + 1]));
        ((Pack<u16, 4> *)out)[i] = rounded;
    }
}

// The largest magnitude of n numbers, a multiple of 4, into `most`, which is zero before. The bits of floats without a
// sign are in the order of the numbers, with NaN above all.
extern "C" __global__ void largest(const float *w, float *most, i64 n) {
    after_earlier_work();
    u32 seen = 0;
    FOR_ELEMENTS(i, n / 4) {
        Pack<float, 4> in = ((const Pack<float, 4> *)w)[i];
        for (int j = 0; j < 4; j++) seen = max(seen, __float_as_uint(fabsf(in.v[j])));
    }
    seen = __reduce_max_sync(~0u, seen);
    if (threadIdx.x % 32 == 0) atomicMax((u32 *)most, seen);
}

// n is a multiple of 4. Numbers without a unit (all zero, or not all finite) keep their size.
extern "C" __global__ void round_weight(const float *w, const float *most, float *unit, u16 *out, i64 n) {
    after_earlier_work();
    float top = *most, size = top > 0.0f && top < INFINITY ? fmaxf(top / 448.0f, 1e-37f) : 1.0f, scale = 1.0f / size;
    if (blockIdx.x == 0 && threadIdx.x == 0) *unit = size;
    FOR_ELEMENTS(i, n / 4) {
        Pack<float, 4> in = ((const Pack<float, 4> *)w)[i];
        Pack<u16, 2> rounded;
        for (int j = 0; j < 2; j++) rounded.v[j] = two_floats(in.v[2 * j] * scale, in.v[2 * j + 1] * scale);
        ((Pack<u16, 2> *)out)[i] = rounded;
    }
}

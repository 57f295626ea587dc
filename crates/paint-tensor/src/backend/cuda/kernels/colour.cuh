// Pixels with values in [0, 1].

struct Rgb {
    float r, g, b;
};

// Clamped to [0, 1]. Not by `fminf` and `fmaxf`, which would turn a NaN into black.
__device__ __forceinline__ float unit(float x) { return x < 0.0f ? 0.0f : x > 1.0f ? 1.0f : x; }
__device__ __forceinline__ Rgb affine(Rgb x, float scale, float shift) {
    return {unit(scale * x.r + shift), unit(scale * x.g + shift), unit(scale * x.b + shift)};
}

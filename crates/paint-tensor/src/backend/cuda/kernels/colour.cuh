// Pixels with values in [0, 1].

struct Rgb {
    float r, g, b;
};

__device__ __forceinline__ float unit(float x) { return fminf(fmaxf(x, 0.0f), 1.0f); }
__device__ __forceinline__ Rgb affine(Rgb x, float scale, float shift) {
    return {unit(scale * x.r + shift), unit(scale * x.g + shift), unit(scale * x.b + shift)};
}

// Augmented looks at images: colours first, then map, blur, flip and noise. See `op/distort.rs` for the order. The host
// defines COLOR_*, the numbers of the colour operations, and TAPS, the width of the blur.

struct Look {
    int op[5];
    float factor[5];
    float matrix[6];
    float blur[TAPS];
    int pad_y, pad_x, flip;
    u32 seed_low, seed_high;
};

__device__ __forceinline__ float grey(Rgb p) { return 0.2989f * p.r + 0.587f * p.g + 0.114f * p.b; }
__device__ __forceinline__ Rgb blend(Rgb p, float other, float f) {
    return affine(p, f, (1.0f - f) * other);
}
__device__ __forceinline__ float power(float x, float f) { return unit(powf(x < 1e-8f ? 1e-8f : x, f)); }

__device__ Rgb turn_hue(Rgb p, float turn) {
    float v = fmaxf(p.r, fmaxf(p.g, p.b)), range = v - fminf(p.r, fminf(p.g, p.b));
    float s = range == 0.0f ? 0.0f : range / v, divisor = range == 0.0f ? 1.0f : range;
    float rc = (v - p.r) / divisor, gc = (v - p.g) / divisor, bc = (v - p.b) / divisor;
    float sector = v == p.r ? bc - gc : v == p.g ? 2.0f + rc - bc : 4.0f + gc - rc;
    float h = fmodf(sector / 6.0f + 1.0f, 1.0f) + turn;
    h = (h - floorf(h)) * 6.0f;
    float f = h - floorf(h), low = unit(v * (1.0f - s)), q = unit(v * (1.0f - s * f)),
          t = unit(v * (1.0f - s * (1.0f - f)));
    switch ((int)floorf(h) % 6) {
        case 0: return {v, t, low};
        case 1: return {q, v, low};
        case 2: return {low, v, t};
        case 3: return {low, q, v};
        case 4: return {t, low, v};
        default: return {v, low, q};
    }
}

__device__ __forceinline__ Rgb recolor(Rgb p, int op, float f, float mean) {
    switch (op) {
        case COLOR_BRIGHTNESS: return affine(p, f, 0.0f);
        case COLOR_CONTRAST: return blend(p, mean, f);
        case COLOR_SATURATION: return blend(p, grey(p), f);
        case COLOR_HUE: return turn_hue(p, f);
        case COLOR_GAMMA:
        default: return {power(p.r, f), power(p.g, f), power(p.b, f)};
    }
}

__device__ __forceinline__ Rgb recolored(const float *image, int pixels, int i, const Look &look, int from, int to,
                                         float mean, bool clip) {
    Rgb p = {image[i], image[pixels + i], image[2 * pixels + i]};
    if (clip) p = {unit(p.r), unit(p.g), unit(p.b)};
    for (int k = from; k < to; k++) p = recolor(p, look.op[k], look.factor[k], mean);
    return p;
}

// One block for each image of a look: the operations before contrast, whose mean grey needs the whole image, and then
// the others.
extern "C" __global__ void distort_colors(const Look *looks, const float *images, float *out, int pixels) {
    after_earlier_work();
    Look look = looks[blockIdx.y];
    const float *image = images + (i64)blockIdx.x * 3 * pixels;
    out += ((i64)blockIdx.y * gridDim.x + blockIdx.x) * 3 * pixels;
    int contrast = 0;
    while (contrast < 4 && look.op[contrast] != COLOR_CONTRAST) contrast++;
    float sum = 0.0f;
    for (int i = threadIdx.x; i < pixels; i += blockDim.x) {
        Rgb p = recolored(image, pixels, i, look, 0, contrast, 0.0f, true);
        sum += grey(p);
        out[i] = p.r;
        out[pixels + i] = p.g;
        out[2 * pixels + i] = p.b;
    }
    float mean = block_sum(sum) / pixels;
    for (int i = threadIdx.x; i < pixels; i += blockDim.x) {
        Rgb p = recolored(out, pixels, i, look, contrast, 5, mean, false);
        out[i] = p.r;
        out[pixels + i] = p.g;
        out[2 * pixels + i] = p.b;
    }
}

__device__ __forceinline__ int mirror(int i, int n) {
    i = abs(i);
    return max(min(i >= n ? 2 * (n - 1) - i : i, n - 1), 0);
}

// A draw from N(0, 1) that depends on a seed and a place alone, as on the CPU.
__device__ __forceinline__ float normal(u64 seed, u64 place) {
    u64 x = seed + place * 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    x ^= x >> 31;
    const float one = 1.0f / (1 << 24);
    return sqrtf(-2.0f * logf((float)((x >> 40) + 1) * one)) * cosf((float)(x & 0xffffff) * one * 6.2831853f);
}

// One thread for each pixel of each image of a look. Where `noise` is null, it is computed.
extern "C" __global__ void distort_places(const Look *looks, const float *colored, const float *noise, float std,
                                          float *out, int h, int w, i64 n) {
    after_earlier_work();
    int pixels = h * w;
    i64 each = n / gridDim.y;
    FOR_ELEMENTS(i, each) {
        const Look &look = looks[blockIdx.y];
        i64 image = i / pixels, start = ((i64)blockIdx.y * (each / pixels) + image) * 3 * pixels;
        int place = i % pixels, y = place / w, x = place % w;
        int from = look.flip ? w - 1 - x : x, high = h + 2 * look.pad_y, wide = w + 2 * look.pad_x;
        float sum[3] = {0.0f, 0.0f, 0.0f};
        for (int dy = 0; dy < TAPS; dy++) {
            if (look.blur[dy] == 0.0f) continue;
            float yy = mirror(y + look.pad_y + dy - TAPS / 2, high);
            for (int dx = 0; dx < TAPS; dx++) {
                float weight = look.blur[dy] * look.blur[dx];
                if (weight == 0.0f) continue;
                float xx = mirror(from + look.pad_x + dx - TAPS / 2, wide);
                float u = look.matrix[0] * xx + look.matrix[1] * yy + look.matrix[2];
                float v = look.matrix[3] * xx + look.matrix[4] * yy + look.matrix[5];
                float fu = floorf(u), fv = floorf(v);
                float share[2][2] = {{1.0f - (u - fu), u - fu}, {1.0f - (v - fv), v - fv}};
                for (int corner = 0; corner < 4; corner++) {
                    int cx = (int)fu + corner % 2, cy = (int)fv + corner / 2;
                    if (cx < 0 || cy < 0 || cx >= wide || cy >= high) continue;
                    float part = weight * share[0][corner % 2] * share[1][corner / 2];
                    cx = max(min(cx - look.pad_x, w - 1), 0);
                    cy = max(min(cy - look.pad_y, h - 1), 0);
                    const float *at = colored + start + cy * w + cx;
                    for (int c = 0; c < 3; c++) sum[c] += part * at[c * pixels];
                }
            }
        }
        u64 seed = (u64)look.seed_high << 32 | look.seed_low;
        for (int c = 0; c < 3; c++) {
            i64 own = image * 3 * pixels + c * pixels + place, to = start + c * pixels + place;
            float added = noise ? noise[to] : std * normal(seed, own);
            out[to] = unit(sum[c] + added);
        }
    }
}

// Training: batches made of stored images, one step of all parameters, residual branches scaled per sample. The host
// defines TONE_*, the numbers of tones.

// One look at one stored image, 11 words.
struct View {
    u32 index;
    float m[6], brightness, contrast, saturation, tone;
};

struct Rect {
    float top, left, bottom, right;
    __device__ bool contains(int y, int x) const { return y >= top && y < bottom && x >= left && x < right; }
};

// 32 words, as the host writes them.
struct Draw {
    View first, second;
    float mixed, weight;
    Rect cut, erased;
};

struct Sizes {
    int stored_h, stored_w, h, w, reflect;
};

__device__ __forceinline__ float luma(Rgb x) { return 0.299f * x.r + 0.587f * x.g + 0.114f * x.b; }
__device__ __forceinline__ Rgb blend(Rgb a, Rgb b, float w) {
    return {(1.0f - w) * a.r + w * b.r, (1.0f - w) * a.g + w * b.g, (1.0f - w) * a.b + w * b.b};
}

__device__ __forceinline__ Rgb stored(const unsigned char *image, int plane, int i) {
    return {image[i] / 255.0f, image[plane + i] / 255.0f, image[2 * plane + i] / 255.0f};
}

// The mean luma after brightness: a block works on one view.
__device__ float mean_luma(const unsigned char *image, int plane, float brightness) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < plane; i += blockDim.x)
        sum += luma(affine(stored(image, plane, i), brightness, 0.0f));
    return block_sum(sum) / plane;
}

// False outside the image; otherwise the place along an axis of n, inside it.
__device__ __forceinline__ bool place(float &at, int n, int reflect) {
    float last = n - 1;
    if (reflect) {
        at = fabsf(at);
        if (at > last) at = 2.0f * last - at;
    } else if (!(at >= -0.5f && at < last + 0.5f)) {
        return false;
    }
    at = fminf(fmaxf(at, 0.0f), last);
    return true;
}

__device__ Rgb look(const unsigned char *image, const View &view, const Sizes &s, float mean, int y, int x) {
    float sy = view.m[0] * y + view.m[1] * x + view.m[2], sx = view.m[3] * y + view.m[4] * x + view.m[5];
    Rgb rgb = {0.0f, 0.0f, 0.0f};
    if (place(sy, s.stored_h, s.reflect) && place(sx, s.stored_w, s.reflect)) {
        int plane = s.stored_h * s.stored_w;
        int y0 = (int)sy, x0 = (int)sx, y1 = min(y0 + 1, s.stored_h - 1), x1 = min(x0 + 1, s.stored_w - 1);
        float dy = sy - y0, dx = sx - x0;
        Rgb top = blend(stored(image, plane, y0 * s.stored_w + x0), stored(image, plane, y0 * s.stored_w + x1), dx);
        Rgb low = blend(stored(image, plane, y1 * s.stored_w + x0), stored(image, plane, y1 * s.stored_w + x1), dx);
        rgb = blend(top, low, dy);
    }
    rgb = affine(rgb, view.brightness, 0.0f);
    rgb = affine(rgb, view.contrast, (1.0f - view.contrast) * mean);
    rgb = affine(rgb, view.saturation, (1.0f - view.saturation) * luma(rgb));
    if (view.tone == TONE_GREY) {
        float grey = luma(rgb);
        rgb = {grey, grey, grey};
    } else if (view.tone == TONE_SOLARIZED) {
        rgb.r = rgb.r < 0.5f ? rgb.r : 1.0f - rgb.r;
        rgb.g = rgb.g < 0.5f ? rgb.g : 1.0f - rgb.g;
        rgb.b = rgb.b < 0.5f ? rgb.b : 1.0f - rgb.b;
    }
    return rgb;
}

// One block for each image of the batch.
extern "C" __global__ void compose(const unsigned char *bytes, const Draw *draws, float *out, Sizes s) {
    after_earlier_work();
    __shared__ Draw draw;
    const int words = sizeof(Draw) / 4;
    if (threadIdx.x < words) ((u32 *)&draw)[threadIdx.x] = ((const u32 *)(draws + blockIdx.x))[threadIdx.x];
    __syncthreads();
    int stored_plane = s.stored_h * s.stored_w, plane = s.h * s.w;
    const unsigned char *first = bytes + (i64)draw.first.index * 3 * stored_plane;
    const unsigned char *second = bytes + (i64)draw.second.index * 3 * stored_plane;
    bool mixed = draw.mixed != 0.0f;
    float first_mean = 0.0f, second_mean = 0.0f;
    if (draw.first.contrast != 1.0f) first_mean = mean_luma(first, stored_plane, draw.first.brightness);
    if (mixed && draw.second.contrast != 1.0f) second_mean = mean_luma(second, stored_plane, draw.second.brightness);
    out += (i64)blockIdx.x * 3 * plane;
    for (int i = threadIdx.x; i < plane; i += blockDim.x) {
        int y = i / s.w, x = i % s.w;
        Rgb rgb;
        if (draw.erased.contains(y, x)) {
            rgb = {0.5f, 0.5f, 0.5f};
        } else if (!mixed) {
            rgb = look(first, draw.first, s, first_mean, y, x);
        } else {
            rgb = look(second, draw.second, s, second_mean, y, x);
            if (!draw.cut.contains(y, x)) rgb = blend(rgb, look(first, draw.first, s, first_mean, y, x), draw.weight);
        }
        out[i] = rgb.r;
        out[plane + i] = rgb.g;
        out[2 * plane + i] = rgb.b;
    }
}

// One parameter of a step, 24 words. A row of blocks works on it.
struct Slot {
    const float *param, *grad, *first, *second, *average;
    float *new_param, *new_first, *new_second, *new_average;
    bf16 *half;
    i64 n;
    float lr, decay;
};

// Σ g² of each block's part of each parameter; the order of the sums is always the same.
extern "C" __global__ void gradient_squares(const Slot *slots, float *parts) {
    after_earlier_work();
    const Slot slot = slots[blockIdx.y];
    float sum = 0.0f;
    FOR_ELEMENTS(i, slot.n) sum += slot.grad[i] * slot.grad[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) parts[blockIdx.y * gridDim.x + blockIdx.x] = sum;
}

// The norm of all gradients, and the factor that brings it down to `clip`.
extern "C" __global__ void clip_factor(const float *parts, int n, float clip, float *out) {
    after_earlier_work();
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += parts[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
        float norm = sqrtf(sum), factor = clip / (norm + 1e-6f);
        out[0] = norm;
        // Not `fminf`: gradients that hold a NaN must not look clipped.
        out[1] = factor > 1.0f ? 1.0f : factor;
    }
}

__device__ __forceinline__ void finish(const Slot &slot, i64 i, float param, float average_decay) {
    slot.new_param[i] = param;
    if (slot.average) slot.new_average[i] = average_decay * slot.average[i] + (1.0f - average_decay) * param;
    if (slot.half) slot.half[i] = narrow<bf16>(param);
}

struct Sgd {
    float momentum, nesterov, average_decay;
};

// The first velocity is the gradient itself: `first` is null then.
extern "C" __global__ void sgd_all(const Slot *slots, const float *factor, Sgd rule) {
    after_earlier_work();
    const Slot slot = slots[blockIdx.y];
    float scale = factor ? *factor : 1.0f;
    FOR_ELEMENTS(i, slot.n) {
        float param = slot.param[i], g = scale * slot.grad[i] + slot.decay * param;
        float v = (slot.first ? rule.momentum * slot.first[i] : 0.0f) + g;
        slot.new_first[i] = v;
        finish(slot, i, param - slot.lr * (rule.nesterov != 0.0f ? g + rule.momentum * v : v), rule.average_decay);
    }
}

struct Adam {
    float beta1, beta2, eps, rate, root, decoupled, average_decay;
};

extern "C" __global__ void adam_all(const Slot *slots, const float *factor, Adam rule) {
    after_earlier_work();
    const Slot slot = slots[blockIdx.y];
    float scale = factor ? *factor : 1.0f;
    bool beside = rule.decoupled != 0.0f;
    FOR_ELEMENTS(i, slot.n) {
        float param = slot.param[i], g = scale * slot.grad[i] + (beside ? 0.0f : slot.decay * param);
        float m = (slot.first ? rule.beta1 * slot.first[i] : 0.0f) + (1.0f - rule.beta1) * g;
        float v = (slot.second ? rule.beta2 * slot.second[i] : 0.0f) + (1.0f - rule.beta2) * (g * g);
        slot.new_first[i] = m;
        slot.new_second[i] = v;
        float kept = beside ? param * (1.0f - slot.lr * slot.decay) : param;
        finish(slot, i, kept - slot.lr * rule.rate * m / (sqrtf(v) * rule.root + rule.eps), rule.average_decay);
    }
}

// Samples of `width` elements, each with a factor of its own; N elements are loaded at once.
template <class T, int N>
__device__ __forceinline__ void add_scaled(const T *residual, const T *x, const float *factors, T *out, int width,
                                           i64 n) {
    FOR_ELEMENTS(i, n / N) {
        Pack<T, N> a, b = ((const Pack<T, N> *)x)[i];
        if (residual) a = ((const Pack<T, N> *)residual)[i];
        float factor = factors[(u32)i / (u32)(width / N)];
        for (int j = 0; j < N; j++)
            b.v[j] = narrow<T>((residual ? widen(a.v[j]) : 0.0f) + factor * widen(b.v[j]));
        ((Pack<T, N> *)out)[i] = b;
    }
}
#define ADD_SCALED(name, T, N)                                                                                   \
    extern "C" __global__ void add_scaled_##name(const T *residual, const T *x, const float *factors, T *out,    \
                                                 int width, i64 n) {                                             \
        after_earlier_work();                                                                                    \
        add_scaled<T, N>(residual, x, factors, out, width, n);                                                   \
    }
ADD_SCALED(packs_f32, float, 4)
ADD_SCALED(packs_bf16, bf16, 8)
ADD_SCALED(single_f32, float, 1)
ADD_SCALED(single_bf16, bf16, 1)

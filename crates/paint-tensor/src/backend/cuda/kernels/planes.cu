// Channels and windows of images: the sums of batch norm, pooling, and convolutions as matrix products.

// The elements of channel blockIdx.x of [outer, channels, inner]: a row of threads, whose number is a power of two,
// walks along a plane, starts at a plane of its own and skips as many planes as there are rows.
#define EACH_OF_CHANNEL(at)                                                                             \
    int along = 1 << (31 - __clz(min(inner, (int)blockDim.x)));                                         \
    for (int plane = threadIdx.x / along; plane < outer; plane += blockDim.x / along)                   \
        for (i64 first = ((i64)plane * channels + blockIdx.x) * inner, at = first + threadIdx.x % along; \
             at < first + inner; at += along)

// Mean and biased variance of channel blockIdx.x of [outer, channels, inner], in two passes.
extern "C" __global__ void channel_moments(const float *x, float *mean, float *variance, int outer, int channels,
                                           int inner) {
    after_earlier_work();
    float sum = 0.0f, squares = 0.0f, count = (float)outer * inner;
    { EACH_OF_CHANNEL(at) sum += x[at]; }
    float centre = block_sum(sum) / count;
    { EACH_OF_CHANNEL(at) squares += (x[at] - centre) * (x[at] - centre); }
    squares = block_sum(squares) / count;
    if (threadIdx.x == 0) {
        mean[blockIdx.x] = centre;
        variance[blockIdx.x] = squares;
    }
}

// With a ReLU if `gated`, of the sum with a residual where that is not null.
extern "C" __global__ void channel_affine(const float *x, const float *scale, const float *shift,
                                          const float *residual, int gated, float *out, int channels, int inner,
                                          i64 n) {
    after_earlier_work();
    FOR_ELEMENTS(i, n) {
        int channel = (u32)i / (u32)inner % (u32)channels;
        float y = scale[channel] * x[i] + shift[channel];
        if (residual) y += residual[i];
        out[i] = gated ? relu(y) : y;
    }
}

// The part of a gradient that comes through the ReLU of `scale x + shift`, where `scale` is not null.
__device__ __forceinline__ float through(float grad, float x, const float *scale, const float *shift, int channel) {
    return scale ? grad * step(scale[channel] * x + shift[channel]) : grad;
}

extern "C" __global__ void channel_gradient_sums(const float *x, const float *grad, const float *centre,
                                                 const float *scale, const float *shift, float *plain,
                                                 float *centred, int outer, int channels, int inner) {
    after_earlier_work();
    float sum = 0.0f, product = 0.0f, c = centre[blockIdx.x];
    EACH_OF_CHANNEL(at) {
        float g = through(grad[at], x[at], scale, shift, blockIdx.x);
        sum += g;
        product += g * (x[at] - c);
    }
    sum = block_sum(sum);
    product = block_sum(product);
    if (threadIdx.x == 0) {
        plain[blockIdx.x] = sum;
        centred[blockIdx.x] = product;
    }
}

extern "C" __global__ void channel_combine(const float *x, const float *grad, const float *a, const float *b,
                                           const float *c, const float *scale, const float *shift, float *out,
                                           int channels, int inner, i64 n) {
    after_earlier_work();
    FOR_ELEMENTS(i, n) {
        int channel = (u32)i / (u32)inner % (u32)channels;
        float g = through(grad[i], x[i], scale, shift, channel);
        out[i] = a[channel] * g + b[channel] * x[i] + c[channel];
    }
}

struct Window {
    int height, width, side, stride, padding, out_height, out_width;
};

#define COVERED(w, index, y0, y1, x0, x1)                                                    \
    int y0 = (index) / w.out_width * w.stride - w.padding, x0 = (index) % w.out_width * w.stride - w.padding; \
    int y1 = min(y0 + w.side, w.height), x1 = min(x0 + w.side, w.width);                     \
    y0 = max(y0, 0);                                                                         \
    x0 = max(x0, 0);

extern "C" __global__ void max_pool(Window w, const float *x, float *out, float *place, i64 n) {
    after_earlier_work();
    int target = w.out_height * w.out_width;
    FOR_ELEMENTS(i, n) {
        const float *plane = x + i / target * w.height * w.width;
        int index = i % target;
        COVERED(w, index, y0, y1, x0, x1)
        float best = -INFINITY;
        int at = y0 * w.width + x0;
        for (int y = y0; y < y1; y++)
            for (int column = x0; column < x1; column++) {
                float value = plane[y * w.width + column];
                if (value > best || value != value) {
                    best = value;
                    at = y * w.width + column;
                }
            }
        out[i] = best;
        place[i] = (float)at;
    }
}

// The windows that contain an input pixel. Each pixel gathers from them, so no two threads write to one place.
#define HOLDERS(w, pixel, first_y, last_y, first_x, last_x)                                              \
    int py = (pixel) / w.width + w.padding, px = (pixel) % w.width + w.padding;                          \
    int first_y = py < w.side ? 0 : (py - w.side) / w.stride + 1, last_y = min(py / w.stride, w.out_height - 1); \
    int first_x = px < w.side ? 0 : (px - w.side) / w.stride + 1, last_x = min(px / w.stride, w.out_width - 1);

extern "C" __global__ void max_pool_backward(Window w, const float *place, const float *grad, float *dx, i64 n) {
    after_earlier_work();
    int source = w.height * w.width, target = w.out_height * w.out_width;
    FOR_ELEMENTS(i, n) {
        i64 plane = i / source * target;
        int pixel = i % source;
        HOLDERS(w, pixel, y0, y1, x0, x1)
        float sum = 0.0f;
        for (int y = y0; y <= y1; y++)
            for (int x = x0; x <= x1; x++) {
                i64 at = plane + y * w.out_width + x;
                if ((int)place[at] == pixel) sum += grad[at];
            }
        dx[i] = sum;
    }
}

extern "C" __global__ void avg_pool(Window w, const float *x, float *out, i64 n) {
    after_earlier_work();
    int target = w.out_height * w.out_width;
    float factor = 1.0f / (w.side * w.side);
    FOR_ELEMENTS(i, n) {
        const float *plane = x + i / target * w.height * w.width;
        int index = i % target;
        COVERED(w, index, y0, y1, x0, x1)
        float sum = 0.0f;
        for (int y = y0; y < y1; y++)
            for (int column = x0; column < x1; column++) sum += plane[y * w.width + column];
        out[i] = sum * factor;
    }
}

extern "C" __global__ void avg_pool_backward(Window w, const float *grad, float *dx, i64 n) {
    after_earlier_work();
    int source = w.height * w.width, target = w.out_height * w.out_width;
    float factor = 1.0f / (w.side * w.side);
    FOR_ELEMENTS(i, n) {
        i64 plane = i / source * target;
        int pixel = i % source;
        HOLDERS(w, pixel, y0, y1, x0, x1)
        float sum = 0.0f;
        for (int y = y0; y <= y1; y++)
            for (int x = x0; x <= x1; x++) sum += grad[plane + y * w.out_width + x];
        dx[i] = sum * factor;
    }
}

struct Conv {
    int batch, channels, first, height, width, kh, kw, stride, padding, out_height, out_width, inputs, rows_first;
};

// N neighbours of a row of output pixels at a time.
template <int N>
__device__ __forceinline__ void columns_by(const Conv &c, const float *x, float *out, i64 n) {
    u32 pixels = c.out_height * c.out_width, taps = c.kh * c.kw, rows = c.channels * taps;
    FOR_ELEMENTS(pack, n / N) {
        u32 i = (u32)pack * N, index = i % pixels, line = i / pixels;
        u32 row = c.rows_first ? line / (u32)c.batch : line % rows;
        u32 image = c.rows_first ? line % (u32)c.batch : line / rows;
        u32 channel = row / taps, tap = row % taps;
        int y = (int)(index / (u32)c.out_width) * c.stride - c.padding + (int)(tap / (u32)c.kw);
        int left = (int)(index % (u32)c.out_width) * c.stride - c.padding + (int)(tap % (u32)c.kw);
        i64 start = (((i64)image * c.inputs + c.first + channel) * c.height + y) * c.width;
        Pack<float, N> values;
        for (int j = 0; j < N; j++) {
            int at = left + j * c.stride;
            values.v[j] = y >= 0 && y < c.height && at >= 0 && at < c.width ? x[start + at] : 0.0f;
        }
        ((Pack<float, N> *)out)[pack] = values;
    }
}

// Columns of one group, whose channels begin at `first` of `inputs`: [batch, channels kh kw, oh ow], or
// [channels kh kw, batch, oh ow] if rows come first.
extern "C" __global__ void columns(Conv c, const float *x, float *out, i64 n) {
    after_earlier_work();
    if (c.out_width % 4)
        columns_by<1>(c, x, out, n);
    else
        columns_by<4>(c, x, out, n);
}

// The output pixel whose tap `tap` reads this input pixel, along one axis; below zero if there is none.
__device__ __forceinline__ int reader(int at, int tap, int padding, int stride, int length) {
    int distance = at + padding - tap;
    if (distance < 0 || (stride > 1 && distance % stride)) return -1;
    int out = stride > 1 ? distance / stride : distance;
    return out < length ? out : -1;
}

// The adjoint of `columns` with images first: each pixel of the group's channels gathers its sum into
// dx [batch, inputs, H, W].
extern "C" __global__ void columns_backward(Conv c, const float *columns, float *dx, i64 n) {
    after_earlier_work();
    int pixels = c.out_height * c.out_width;
    FOR_ELEMENTS(i, n) {
        u32 row = (u32)i / (u32)c.width, plane = row / (u32)c.height;
        u32 image = plane / (u32)c.channels, channel = plane % (u32)c.channels;
        int at = (u32)i % (u32)c.width, y = row % (u32)c.height;
        const float *taps = columns + (i64)plane * c.kh * c.kw * pixels;
        float sum = 0.0f;
        for (int ky = 0; ky < c.kh; ky++) {
            int oy = reader(y, ky, c.padding, c.stride, c.out_height);
            if (oy < 0) continue;
            for (int kx = 0; kx < c.kw; kx++) {
                int ox = reader(at, kx, c.padding, c.stride, c.out_width);
                if (ox >= 0) sum += taps[(ky * c.kw + kx) * pixels + oy * c.out_width + ox];
            }
        }
        dx[(((i64)image * c.inputs + c.first + channel) * c.height + y) * c.width + at] = sum;
    }
}

struct Depthwise {
    int rows, height, width, channels, side, turned;
};

// Each channel of [rows, width, channels], rows of images one after the other, by its kernel of [side, side, channels].
extern "C" __global__ void depthwise(Depthwise d, const float *x, const float *weight, float *out, i64 n) {
    after_earlier_work();
    int half_side = d.side / 2;
    FOR_ELEMENTS(i, n) {
        int channel = i % d.channels, at = i / d.channels % d.width;
        i64 row = i / ((i64)d.channels * d.width);
        int y = row % d.height;
        float sum = 0.0f;
        for (int u = max(half_side - y, 0); u < min(d.side, d.height + half_side - y); u++)
            for (int v = max(half_side - at, 0); v < min(d.side, d.width + half_side - at); v++) {
                i64 from = ((row + u - half_side) * d.width + at + v - half_side) * d.channels + channel;
                int tap = d.turned ? d.side * d.side - 1 - (u * d.side + v) : u * d.side + v;
                sum += x[from] * weight[tap * d.channels + channel];
            }
        out[i] = sum;
    }
}

// Partial sums [parts, side, side, channels] of the gradient of the kernels; part p takes rows p, p + parts, ...
extern "C" __global__ void depthwise_backward_weight(Depthwise d, const float *x, const float *grad, float *out,
                                                     int parts, i64 n) {
    after_earlier_work();
    int half_side = d.side / 2;
    FOR_ELEMENTS(i, n) {
        int channel = i % d.channels, v = i / d.channels % d.side, u = i / ((i64)d.channels * d.side) % d.side;
        float sum = 0.0f;
        for (i64 row = i / ((i64)d.channels * d.side * d.side); row < d.rows; row += parts) {
            int y = row % d.height + u - half_side;
            if (y < 0 || y >= d.height) continue;
            for (int at = max(half_side - v, 0); at < min(d.width, d.width + half_side - v); at++) {
                i64 from = ((row + u - half_side) * d.width + at + v - half_side) * d.channels + channel;
                sum += x[from] * grad[(row * d.width + at) * d.channels + channel];
            }
        }
        out[i] = sum;
    }
}

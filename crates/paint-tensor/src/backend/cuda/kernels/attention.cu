// softmax(Q Kᵀ / sqrt(d)) V per head and its gradients on tensor cores; scores live in registers only.
//
// A warp owns 16 rows of the result, a block as many warps as the launch says. Accumulators of one product are the left
// operand of the next as they stand: the order along the contracted axis is free, so the right operand is read in the
// order the accumulators are held in. Blocks never share an output, so results are the same bits every time.

#define TILE 64
#define HALF 32
#define STAGES (MODE == 0 ? 2 : 1)
#define MOST_THREADS 256
#define BLOCKS (MODE == 0 ? 2 : 1)
#define VECTOR (16 / (int)sizeof(Element))
#define LOG2E 1.4426950408889634f

struct Rows {
    const Element *data;
    i64 row;
};

struct Shape {
    int heads, q_len, kv_len;
    float scale;
};

__device__ __forceinline__ float fast_exp2(float x) {
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
}

// Begins to copy `count` rows of one head, from `first` on, into a tile; what lies outside is zero. `arrived` waits.
__device__ __forceinline__ void load_tile(Element *tile, int count, const Element *rows, i64 pitch, int first,
                                          int len) {
    const int packs = WIDTH / VECTOR;
    for (int i = threadIdx.x; i < count * packs; i += blockDim.x) {
        int row = i / packs, column = i % packs * VECTOR;
        const Element *from = rows + (first + row) * pitch + column;
        Element *to = tile + row * PITCH + column;
#if HEAD % 8 == 0
        bool inside = first + row < len && column < HEAD;
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                     "l"(inside ? from : rows), "r"(inside ? 16 : 0));
#else
        for (int j = 0; j < VECTOR; j++)
            to[j] = first + row < len && column + j < HEAD ? from[j] : narrow<Element>(0.0f);
#endif
    }
}

// Ends a group of copies.
__device__ __forceinline__ void sent() { asm volatile("cp.async.commit_group;"); }

// Waits for all groups but the last `pending`.
template <int pending>
__device__ __forceinline__ void arrived() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending));
    __syncthreads();
}

// c[16, N] += left rows of a warp by N rows of `right`, of which `count` are not zero.
template <int N>
__device__ __forceinline__ void scores(float c[N / 8][4], const Element *left, int row, const Element *right,
                                       int count) {
#pragma unroll
    for (int k = 0; k < WIDTH; k += DEPTH) {
        Left a = load_left(left, row, k);
#pragma unroll
        for (int j = 0; j < N / 8; j += 4) {
            if (j * 8 >= count) break;
            Right b[4];
            load_rows(b, right, j * 8, k);
            load_rows(b + 2, right, j * 8 + 16, k);
#pragma unroll
            for (int i = 0; i < 4; i++) multiply(c[j + i], a, b[i]);
        }
    }
}

// c[16, WIDTH] += weights[16, N] by `right` [N, WIDTH], of whose rows `count` are not zero.
template <int N>
__device__ __forceinline__ void combine(float c[WIDTH / 8][4], const float weights[N / 8][4], const Element *right,
                                        int count) {
#pragma unroll
    for (int step = 0; step < N / DEPTH; step++) {
        if (step * DEPTH >= count) break;
        Left a = left_of(weights, step);
#pragma unroll
        for (int j = 0; j < WIDTH / 8; j += 2) {
            Right b[2];
            load_columns(b, right, step * DEPTH, j * 8);
            multiply(c[j], a, b[0]);
            multiply(c[j + 1], a, b[1]);
        }
    }
}

template <int N>
__device__ __forceinline__ void clear(float c[N][4]) {
#pragma unroll
    for (int j = 0; j < N; j++)
        for (int i = 0; i < 4; i++) c[j][i] = 0.0f;
}

// A warp's rows, those of the first 8 times `top`, those of the last 8 times `bottom`.
__device__ __forceinline__ void store(const float c[WIDTH / 8][4], Element *rows, i64 pitch, int first, int len,
                                      float top, float bottom) {
    int member = threadIdx.x % 4, row = first + threadIdx.x % 32 / 4;
#pragma unroll
    for (int j = 0; j < WIDTH / 8; j++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int at = row + half * 8, column = j * 8 + member * 2;
            float factor = half ? bottom : top;
            Element *to = rows + at * pitch + column;
#if HEAD % 8 == 0
            if (at < len && column < HEAD) {
                Pack<Element, 2> pair;
                pair.v[0] = narrow<Element>(c[j][2 * half] * factor);
                pair.v[1] = narrow<Element>(c[j][2 * half + 1] * factor);
                *(Pack<Element, 2> *)to = pair;
            }
#else
            for (int i = 0; i < 2; i++)
                if (at < len && column + i < HEAD) to[i] = narrow<Element>(c[j][2 * half + i] * factor);
#endif
        }
}

#define HEAD_OF(rows, len) (rows.data + (i64)blockIdx.z * (len) * rows.row + blockIdx.y * HEAD)
extern __shared__ __align__(16) unsigned char memory[];
// Rows that a block owns.
#define OWN ((int)blockDim.x / 2)
// The pairs of tiles that a block walks over come first, then tiles of its own rows.
#define TILE_AT(i) ((Element *)memory + (i) * TILE * PITCH)
#define OWN_AT(i) (TILE_AT(2 * STAGES) + (i) * OWN * PITCH)

// Walks over the other side in tiles: pair `stage` of tiles is worked on while the next pair arrives, where there is
// room for two. The first arrival covers what the block began to load before.
template <class Load, class Work>
__device__ __forceinline__ void walk(int len, Load load, Work work) {
    load(0, 0);
    sent();
    for (int at = 0, stage = 0; at < len; at += TILE, stage = (stage + 1) % STAGES) {
        bool more = at + TILE < len;
        if (STAGES == 2 && more) {
            load(at + TILE, 1 - stage);
            sent();
            arrived<1>();
        } else {
            arrived<0>();
        }
        work(at, TILE_AT(2 * stage), TILE_AT(2 * stage + 1));
        __syncthreads();
        if (STAGES == 1 && more) {
            load(at + TILE, 0);
            sent();
        }
    }
}

#define LOAD_PAIR(a, b, len)                                                               \
    [&](int at, int stage) {                                                               \
        load_tile(TILE_AT(2 * stage), TILE, HEAD_OF(a, len), a.row, at, len);              \
        load_tile(TILE_AT(2 * stage + 1), TILE, HEAD_OF(b, len), b.row, at, len);          \
    }

extern "C" __global__ void __launch_bounds__(MOST_THREADS, BLOCKS)
attention_forward(Shape shape, Rows q, Rows k, Rows v, Element *out, float *lse) {
    Element *qs = OWN_AT(0);
    int first = blockIdx.x * OWN, warp_row = threadIdx.x / 32 * 16;
    load_tile(qs, OWN, HEAD_OF(q, shape.q_len), q.row, first, shape.q_len);
    float o[WIDTH / 8][4], top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f}, factor = shape.scale * LOG2E;
    clear<WIDTH / 8>(o);
    walk(shape.kv_len, LOAD_PAIR(k, v, shape.kv_len), [&](int at, const Element *ks, const Element *vs) {
        if (first + warp_row >= shape.q_len) return;
        float s[TILE / 8][4], best[2] = {top[0], top[1]};
        int count = shape.kv_len - at;
        clear<TILE / 8>(s);
        scores<TILE>(s, qs, warp_row, ks, count);
        if (count < TILE) {
#pragma unroll
            for (int j = 0; j < TILE / 8; j++)
                for (int i = 0; i < 4; i++)
                    if (j * 8 + threadIdx.x % 4 * 2 + i % 2 >= count) s[j][i] = -INFINITY;
        }
#pragma unroll
        for (int j = 0; j < TILE / 8; j++)
            for (int i = 0; i < 4; i++) best[i / 2] = fmaxf(best[i / 2], s[j][i]);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            for (int step = 1; step < 4; step *= 2)
                best[half] = fmaxf(best[half], __shfl_xor_sync(~0u, best[half], step));
            float shrink = fast_exp2((top[half] - best[half]) * factor);
            top[half] = best[half];
            sum[half] *= shrink;
#pragma unroll
            for (int j = 0; j < WIDTH / 8; j++) {
                o[j][2 * half] *= shrink;
                o[j][2 * half + 1] *= shrink;
            }
        }
        float shift[2] = {-top[0] * factor, -top[1] * factor};
#pragma unroll
        for (int j = 0; j < TILE / 8; j++)
            for (int i = 0; i < 4; i++) {
                s[j][i] = fast_exp2(fmaf(s[j][i], factor, shift[i / 2]));
                sum[i / 2] += s[j][i];
            }
        combine<TILE>(o, s, vs, count);
    });
    for (int half = 0; half < 2; half++)
        for (int step = 1; step < 4; step *= 2) sum[half] += __shfl_xor_sync(~0u, sum[half], step);
    i64 width = (i64)shape.heads * HEAD;
    store(o, out + (i64)blockIdx.z * shape.q_len * width + blockIdx.y * HEAD, width, first + warp_row, shape.q_len,
          1.0f / sum[0], 1.0f / sum[1]);
    if (threadIdx.x % 4 == 0)
        for (int half = 0; half < 2; half++) {
            int row = first + warp_row + threadIdx.x % 32 / 4 + half * 8;
            if (row < shape.q_len)
                lse[((i64)blockIdx.z * shape.heads + blockIdx.y) * shape.q_len + row] =
                    top[half] * shape.scale + logf(sum[half]);
        }
}

// Σ dO O of each row and head, [B, h, M]: 8 lanes each, neighbours in memory side by side.
extern "C" __global__ void attention_delta(Shape shape, const Element *out, const Element *grad, float *delta, i64 n) {
    i64 row = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 8;
    int lane = threadIdx.x % 8;
    float sum = 0.0f;
    if (row < n) {
#if HEAD % 64 == 0
        for (int i = lane * 8; i < HEAD; i += 64)
            for (int part = 0; part < 8; part += VECTOR) {
                Pack<Element, VECTOR> x = *(const Pack<Element, VECTOR> *)(out + row * HEAD + i + part);
                Pack<Element, VECTOR> y = *(const Pack<Element, VECTOR> *)(grad + row * HEAD + i + part);
                for (int j = 0; j < VECTOR; j++) sum += widen(x.v[j]) * widen(y.v[j]);
            }
#else
        for (int i = lane; i < HEAD; i += 8) sum += widen(out[row * HEAD + i]) * widen(grad[row * HEAD + i]);
#endif
    }
    for (int step = 4; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    i64 head = row % shape.heads, m = row / shape.heads % shape.q_len, image = row / shape.heads / shape.q_len;
    if (lane == 0 && row < n) delta[(image * shape.heads + head) * shape.q_len + m] = sum;
}

#define STATISTICS_OF(x) ((x) + ((i64)blockIdx.z * shape.heads + blockIdx.y) * shape.q_len)

// dQ: a warp owns 16 queries and walks over the keys.
extern "C" __global__ void __launch_bounds__(MOST_THREADS, BLOCKS)
attention_backward_queries(Shape shape, Rows q, Rows k, Rows v, Rows grad, const float *lse, const float *delta,
                           Element *dq, i64 dq_row) {
    Element *qs = OWN_AT(0), *gs = OWN_AT(1);
    int first = blockIdx.x * OWN, warp_row = threadIdx.x / 32 * 16;
    load_tile(qs, OWN, HEAD_OF(q, shape.q_len), q.row, first, shape.q_len);
    load_tile(gs, OWN, HEAD_OF(grad, shape.q_len), grad.row, first, shape.q_len);
    float shift[2], d[2], sum[WIDTH / 8][4], factor = shape.scale * LOG2E;
    for (int half = 0; half < 2; half++) {
        int row = first + warp_row + threadIdx.x % 32 / 4 + half * 8;
        shift[half] = row < shape.q_len ? STATISTICS_OF(lse)[row] * -LOG2E : -INFINITY;
        d[half] = row < shape.q_len ? STATISTICS_OF(delta)[row] : 0.0f;
    }
    clear<WIDTH / 8>(sum);
    walk(shape.kv_len, LOAD_PAIR(k, v, shape.kv_len), [&](int at, const Element *ks, const Element *vs) {
        if (first + warp_row >= shape.q_len) return;
#pragma unroll
        for (int part = 0; part < TILE; part += HALF) {
            int count = shape.kv_len - at - part;
            if (count <= 0) break;
            float s[HALF / 8][4], dp[HALF / 8][4];
            clear<HALF / 8>(s);
            clear<HALF / 8>(dp);
            scores<HALF>(s, qs, warp_row, ks + part * PITCH, count);
            scores<HALF>(dp, gs, warp_row, vs + part * PITCH, count);
#pragma unroll
            for (int j = 0; j < HALF / 8; j++)
                for (int i = 0; i < 4; i++) {
                    float p = fast_exp2(fmaf(s[j][i], factor, shift[i / 2]));
                    bool inside = j * 8 + threadIdx.x % 4 * 2 + i % 2 < count;
                    s[j][i] = inside ? p * (dp[j][i] - d[i / 2]) : 0.0f;
                }
            combine<HALF>(sum, s, ks + part * PITCH, count);
        }
    });
    store(sum, dq + (i64)blockIdx.z * shape.q_len * dq_row + blockIdx.y * HEAD, dq_row, first + warp_row, shape.q_len,
          shape.scale, shape.scale);
}

// dK and dV: a warp owns 16 keys and walks over the queries; scores are held transposed.
extern "C" __global__ void __launch_bounds__(MOST_THREADS, BLOCKS)
attention_backward_keys(Shape shape, Rows q, Rows k, Rows v, Rows grad, const float *lse, const float *delta,
                        Element *dk, Element *dv, i64 dkv_row) {
    Element *ks = OWN_AT(0), *vs = OWN_AT(1);
    int first = blockIdx.x * OWN, warp_row = threadIdx.x / 32 * 16;
    load_tile(ks, OWN, HEAD_OF(k, shape.kv_len), k.row, first, shape.kv_len);
    load_tile(vs, OWN, HEAD_OF(v, shape.kv_len), v.row, first, shape.kv_len);
    // Of every query: minus the logarithm of its sum, and its delta. Queries past the end weigh nothing.
    Pack<float, 2> *statistics = (Pack<float, 2> *)OWN_AT(2);
    for (int i = threadIdx.x; i < (shape.q_len + TILE - 1) / TILE * TILE; i += blockDim.x) {
        bool inside = i < shape.q_len;
        statistics[i].v[0] = inside ? STATISTICS_OF(lse)[i] * -LOG2E : -INFINITY;
        statistics[i].v[1] = inside ? STATISTICS_OF(delta)[i] : 0.0f;
    }
    float key[WIDTH / 8][4], value[WIDTH / 8][4], factor = shape.scale * LOG2E;
    clear<WIDTH / 8>(key);
    clear<WIDTH / 8>(value);
    walk(shape.q_len, LOAD_PAIR(q, grad, shape.q_len), [&](int at, const Element *qs, const Element *gs) {
        if (first + warp_row >= shape.kv_len) return;
#pragma unroll
        for (int part = 0; part < TILE; part += HALF) {
            int count = shape.q_len - at - part;
            if (count <= 0) break;
            float p[HALF / 8][4], ds[HALF / 8][4];
            clear<HALF / 8>(p);
            clear<HALF / 8>(ds);
            scores<HALF>(p, ks, warp_row, qs + part * PITCH, count);
            scores<HALF>(ds, vs, warp_row, gs + part * PITCH, count);
#pragma unroll
            for (int j = 0; j < HALF / 8; j++)
                for (int i = 0; i < 4; i++) {
                    Pack<float, 2> of = statistics[at + part + j * 8 + threadIdx.x % 4 * 2 + i % 2];
                    p[j][i] = fast_exp2(fmaf(p[j][i], factor, of.v[0]));
                    ds[j][i] = p[j][i] * (ds[j][i] - of.v[1]);
                }
            combine<HALF>(value, p, gs + part * PITCH, count);
            combine<HALF>(key, ds, qs + part * PITCH, count);
        }
    });
    i64 at = (i64)blockIdx.z * shape.kv_len * dkv_row + blockIdx.y * HEAD;
    store(key, dk + at, dkv_row, first + warp_row, shape.kv_len, shape.scale, shape.scale);
    store(value, dv + at, dkv_row, first + warp_row, shape.kv_len, 1.0f, 1.0f);
}

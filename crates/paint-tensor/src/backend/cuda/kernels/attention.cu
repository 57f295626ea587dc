// softmax(Q Kᵀ / sqrt(d)) V per head and its gradients on tensor cores; scores live in registers only.
//
// A warp owns BANDS times 16 rows of the result; what it reads of the other side serves all its bands. A block has as
// many warps as the launch says, at most MOST_THREADS threads, and walks over the other side in tiles of TILE rows.
// The accumulators of one product are the left operand of the next as they are: the order along the contracted axis
// is free, so the right operand is read in the order of the accumulators. Blocks never share an output, so results
// are the same bits every time.

// Rows of the other side that the gradients of queries and of keys process at once: as many as registers allow.
#define QUERY_PART 32
#define KEY_PART (MODE == MODE_BF16 || BANDS == 2 ? 16 : 32)
#define STAGES (MODE == MODE_BF16 ? 2 : 1)
#define BANDS (MODE != MODE_F32 && WIDTH <= 64 ? 2 : 1)
#define VECTOR (16 / (int)sizeof(Element))

// Starts to copy `count` rows of one head, from `first` on, into a tile; rows past the end are zero. `arrived` waits.
__device__ __forceinline__ void load_tile(Element *tile, int count, const Element *rows, i64 pitch, int first,
                                          int len) {
    const int packs = WIDTH / VECTOR;
    for (int i = threadIdx.x; i < count * packs; i += blockDim.x) {
        int row = i / packs, column = i % packs * VECTOR;
        const Element *from = rows + (first + row) * pitch + column;
        Element *to = tile + row * PITCH + column;
#if HEAD % 8 == 0
        bool inside = first + row < len && column < HEAD;
        send(shared_address(to), inside ? from : rows, inside);
#else
        for (int j = 0; j < VECTOR; j++)
            to[j] = first + row < len && column + j < HEAD ? from[j] : narrow<Element>(0.0f);
#endif
    }
}

// Waits for all groups of copies but the last `pending`, of all threads.
template <int pending>
__device__ __forceinline__ void arrived() {
    received<pending>();
    __syncthreads();
}

// c[16 BANDS, N] += a warp's rows of `left` times N rows of `right`, of which the first `count` matter.
template <int N>
__device__ __forceinline__ void scores(float c[BANDS][N / 8][4], const Element *left, int row, const Element *right,
                                       int count) {
#pragma unroll
    for (int k = 0; k < WIDTH; k += DEPTH) {
        Left a[BANDS];
#pragma unroll
        for (int band = 0; band < BANDS; band++) a[band] = load_left(left, row + 16 * band, k);
#pragma unroll
        for (int j = 0; j < N / 8; j += 2) {
            if (j * 8 >= count) break;
            Right b[2];
            load_rows(b, right, j * 8, k);
#pragma unroll
            for (int band = 0; band < BANDS; band++) {
                multiply(c[band][j], a[band], b[0]);
                multiply(c[band][j + 1], a[band], b[1]);
            }
        }
    }
}

// c[16 BANDS, WIDTH] += weights[16 BANDS, N] times `right` [N, WIDTH], of whose rows the first `count` matter.
template <int N>
__device__ __forceinline__ void combine(float c[BANDS][WIDTH / 8][4], const float weights[BANDS][N / 8][4],
                                        const Element *right, int count) {
#pragma unroll
    for (int step = 0; step < N / DEPTH; step++) {
        if (step * DEPTH >= count) break;
        Left a[BANDS];
#pragma unroll
        for (int band = 0; band < BANDS; band++) a[band] = left_of(weights[band], step);
#pragma unroll
        for (int j = 0; j < WIDTH / 8; j += 2) {
            Right b[2];
            load_columns(b, right, step * DEPTH, j * 8);
#pragma unroll
            for (int band = 0; band < BANDS; band++) {
                multiply(c[band][j], a[band], b[0]);
                multiply(c[band][j + 1], a[band], b[1]);
            }
        }
    }
}

template <int N>
__device__ __forceinline__ void clear(float c[BANDS][N][4]) {
#pragma unroll
    for (int band = 0; band < BANDS; band++)
#pragma unroll
        for (int j = 0; j < N; j++)
            for (int i = 0; i < 4; i++) c[band][j][i] = 0.0f;
}

#define EACH_BAND(band) _Pragma("unroll") for (int band = 0; band < BANDS; band++)

// Writes a band's rows, the first 8 times `top` and the last 8 times `bottom`.
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

// Rows that a block owns.
#define OWN ((int)blockDim.x / 2 * BANDS)
// The pairs of tiles that a block walks over come first, then tiles of its own rows.
#define TILE_AT(i) ((Element *)memory + (i) * TILE * PITCH)
#define OWN_AT(i) (TILE_AT(2 * STAGES) + (i) * OWN * PITCH)

// Walks over the other side in pairs of tiles. Where there is room for two pairs, one is worked on while the next
// arrives. The first arrival also covers what the block started to load before.
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

extern "C" __global__ void __launch_bounds__(MOST_THREADS, MODE == MODE_BF16 ? 3 : 2)
attention_forward(Shape shape, Rows q, Rows k, Rows v, Element *out, float *lse) {
    after_earlier_work();
    Element *qs = OWN_AT(0);
    int first = blockIdx.x * OWN, warp_row = threadIdx.x / 32 * 16 * BANDS;
    load_tile(qs, OWN, HEAD_OF(q, shape.q_len), q.row, first, shape.q_len);
    float o[BANDS][WIDTH / 8][4], top[BANDS][2], sum[BANDS][2], factor = shape.scale * LOG2E;
    clear<WIDTH / 8>(o);
    EACH_BAND(band) for (int half = 0; half < 2; half++) {
        top[band][half] = -INFINITY;
        sum[band][half] = 0.0f;
    }
    walk(shape.kv_len, LOAD_PAIR(k, v, shape.kv_len), [&](int at, const Element *ks, const Element *vs) {
        if (first + warp_row >= shape.q_len) return;
        float s[BANDS][TILE / 8][4];
        int count = shape.kv_len - at;
        clear<TILE / 8>(s);
        scores<TILE>(s, qs, warp_row, ks, count);
        EACH_BAND(band) {
            float best[2] = {top[band][0], top[band][1]};
            if (count < TILE) {
                EACH(j, i, TILE) if (COLUMN(j, i) >= count) s[band][j][i] = -INFINITY;
            }
            EACH(j, i, TILE) best[i / 2] = fmaxf(best[i / 2], s[band][j][i]);
#pragma unroll
            for (int half = 0; half < 2; half++) {
                for (int step = 1; step < 4; step *= 2)
                    best[half] = fmaxf(best[half], __shfl_xor_sync(~0u, best[half], step));
                float shrink = fast_exp2((top[band][half] - best[half]) * factor);
                top[band][half] = best[half];
                sum[band][half] *= shrink;
#pragma unroll
                for (int j = 0; j < WIDTH / 8; j++) {
                    o[band][j][2 * half] *= shrink;
                    o[band][j][2 * half + 1] *= shrink;
                }
            }
            float shift[2] = {-top[band][0] * factor, -top[band][1] * factor};
            EACH(j, i, TILE) {
                s[band][j][i] = fast_exp2(fmaf(s[band][j][i], factor, shift[i / 2]));
                sum[band][i / 2] += s[band][j][i];
            }
        }
        combine<TILE>(o, s, vs, count);
    });
    i64 width = (i64)shape.heads * HEAD;
    EACH_BAND(band) {
        for (int half = 0; half < 2; half++)
            for (int step = 1; step < 4; step *= 2) sum[band][half] += __shfl_xor_sync(~0u, sum[band][half], step);
        int row = first + warp_row + 16 * band;
        store(o[band], out + (i64)blockIdx.z * shape.q_len * width + blockIdx.y * HEAD, width, row, shape.q_len,
              1.0f / sum[band][0], 1.0f / sum[band][1]);
        if (threadIdx.x % 4 == 0)
            for (int half = 0; half < 2; half++) {
                int at = row + threadIdx.x % 32 / 4 + half * 8;
                if (at < shape.q_len)
                    STATISTICS_OF(lse)[at] = top[band][half] * shape.scale + logf(sum[band][half]);
            }
    }
}

// Σ dO O of each row and head, [B, h, M]: 8 lanes each, which read neighbours in memory.
extern "C" __global__ void attention_delta(Shape shape, const Element *out, const Element *grad, float *delta, i64 n) {
    after_earlier_work();
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

// dQ: a warp owns queries and walks over the keys.
extern "C" __global__ void __launch_bounds__(MOST_THREADS, 2)
attention_backward_queries(Shape shape, Rows q, Rows k, Rows v, Rows grad, const float *lse, const float *delta,
                           Element *dq, i64 dq_row) {
    after_earlier_work();
    Element *qs = OWN_AT(0), *gs = OWN_AT(1);
    int first = blockIdx.x * OWN, warp_row = threadIdx.x / 32 * 16 * BANDS;
    load_tile(qs, OWN, HEAD_OF(q, shape.q_len), q.row, first, shape.q_len);
    load_tile(gs, OWN, HEAD_OF(grad, shape.q_len), grad.row, first, shape.q_len);
    float shift[BANDS][2], d[BANDS][2], sum[BANDS][WIDTH / 8][4], factor = shape.scale * LOG2E;
    EACH_BAND(band) for (int half = 0; half < 2; half++) {
        int row = first + warp_row + 16 * band + threadIdx.x % 32 / 4 + half * 8;
        shift[band][half] = row < shape.q_len ? STATISTICS_OF(lse)[row] * -LOG2E : -INFINITY;
        d[band][half] = row < shape.q_len ? STATISTICS_OF(delta)[row] : 0.0f;
    }
    clear<WIDTH / 8>(sum);
    walk(shape.kv_len, LOAD_PAIR(k, v, shape.kv_len), [&](int at, const Element *ks, const Element *vs) {
        if (first + warp_row >= shape.q_len) return;
#pragma unroll
        for (int part = 0; part < TILE; part += QUERY_PART) {
            int count = shape.kv_len - at - part;
            if (count <= 0) break;
            float s[BANDS][QUERY_PART / 8][4], dp[BANDS][QUERY_PART / 8][4];
            clear<QUERY_PART / 8>(s);
            clear<QUERY_PART / 8>(dp);
            scores<QUERY_PART>(s, qs, warp_row, ks + part * PITCH, count);
            scores<QUERY_PART>(dp, gs, warp_row, vs + part * PITCH, count);
            EACH_BAND(band) EACH(j, i, QUERY_PART) {
                float p = fast_exp2(fmaf(s[band][j][i], factor, shift[band][i / 2]));
                s[band][j][i] = COLUMN(j, i) < count ? p * (dp[band][j][i] - d[band][i / 2]) : 0.0f;
            }
            combine<QUERY_PART>(sum, s, ks + part * PITCH, count);
        }
    });
    EACH_BAND(band)
        store(sum[band], dq + (i64)blockIdx.z * shape.q_len * dq_row + blockIdx.y * HEAD, dq_row,
              first + warp_row + 16 * band, shape.q_len, shape.scale, shape.scale);
}

// dK and dV: a warp owns keys and walks over the queries; scores are held transposed.
extern "C" __global__ void __launch_bounds__(MOST_THREADS, 2)
attention_backward_keys(Shape shape, Rows q, Rows k, Rows v, Rows grad, const float *lse, const float *delta,
                        Element *dk, Element *dv, i64 dkv_row) {
    after_earlier_work();
    Element *ks = OWN_AT(0), *vs = OWN_AT(1);
    int first = blockIdx.x * OWN, warp_row = threadIdx.x / 32 * 16 * BANDS;
    load_tile(ks, OWN, HEAD_OF(k, shape.kv_len), k.row, first, shape.kv_len);
    load_tile(vs, OWN, HEAD_OF(v, shape.kv_len), v.row, first, shape.kv_len);
    // For every query: minus the logarithm of its sum, and its delta. The weights of queries past the end are zero.
    Pack<float, 2> *statistics = (Pack<float, 2> *)OWN_AT(2);
    for (int i = threadIdx.x; i < (shape.q_len + TILE - 1) / TILE * TILE; i += blockDim.x) {
        bool inside = i < shape.q_len;
        statistics[i].v[0] = inside ? STATISTICS_OF(lse)[i] * -LOG2E : -INFINITY;
        statistics[i].v[1] = inside ? STATISTICS_OF(delta)[i] : 0.0f;
    }
    float key[BANDS][WIDTH / 8][4], value[BANDS][WIDTH / 8][4], factor = shape.scale * LOG2E;
    clear<WIDTH / 8>(key);
    clear<WIDTH / 8>(value);
    walk(shape.q_len, LOAD_PAIR(q, grad, shape.q_len), [&](int at, const Element *qs, const Element *gs) {
        if (first + warp_row >= shape.kv_len) return;
#pragma unroll
        for (int part = 0; part < TILE; part += KEY_PART) {
            int count = shape.q_len - at - part;
            if (count <= 0) break;
            float p[BANDS][KEY_PART / 8][4], ds[BANDS][KEY_PART / 8][4];
            clear<KEY_PART / 8>(p);
            clear<KEY_PART / 8>(ds);
            scores<KEY_PART>(p, ks, warp_row, qs + part * PITCH, count);
            scores<KEY_PART>(ds, vs, warp_row, gs + part * PITCH, count);
            EACH(j, i, KEY_PART) {
                Pack<float, 2> of = statistics[at + part + COLUMN(j, i)];
                EACH_BAND(band) {
                    p[band][j][i] = fast_exp2(fmaf(p[band][j][i], factor, of.v[0]));
                    ds[band][j][i] = p[band][j][i] * (ds[band][j][i] - of.v[1]);
                }
            }
            combine<KEY_PART>(value, p, gs + part * PITCH, count);
            combine<KEY_PART>(key, ds, qs + part * PITCH, count);
        }
    });
    i64 at = (i64)blockIdx.z * shape.kv_len * dkv_row + blockIdx.y * HEAD;
    EACH_BAND(band) {
        int row = first + warp_row + 16 * band;
        store(key[band], dk + at, dkv_row, row, shape.kv_len, shape.scale, shape.scale);
        store(value[band], dv + at, dkv_row, row, shape.kv_len, 1.0f, 1.0f);
    }
}

// softmax(Q Kᵀ / sqrt(d)) V per head and its gradients on tensor cores; scores live in registers only.
//
// Compiled for one head dimension (HEAD, padded with zeros to WIDTH, a multiple of 16) and one arithmetic (MODE):
//   0  bf16 storage, bf16 products
//   1  f32 storage, tf32 products
//   2  f32 storage, three tf32 products for each f32 one (high·high + high·low + low·high)
// A warp owns 16 rows of the result. Accumulators of one product are the left operand of the next as they stand: the
// order along the contracted axis is free, so the right operand is read in the order the accumulators are held in.
// Blocks never share an output, so results are the same bits every time.

#if MODE == 0
typedef bf16 Element;
#define DEPTH 16
#define PITCH (WIDTH + 8)
#else
typedef float Element;
#define DEPTH 8
#define PITCH (WIDTH + 4)
#endif
#define TILE 64
#define THREADS 128
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

#if MODE == 0
struct Left { u32 r[4]; };
struct Right { u32 r[2]; };

__device__ __forceinline__ u32 pair(float low, float high) {
    u32 out;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
    return out;
}

__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ Left load_left(const Element *tile, int row, int k) {
    int lane = threadIdx.x % 32;
    u32 at = shared_address(tile + (row + lane % 16) * PITCH + k + lane / 16 * 8);
    Left a;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a.r[0]), "=r"(a.r[1]), "=r"(a.r[2]), "=r"(a.r[3]) : "r"(at));
    return a;
}

// B(k, n) = tile[n][k].
__device__ __forceinline__ Right load_rows(const Element *tile, int n, int k) {
    int lane = threadIdx.x % 16;
    u32 at = shared_address(tile + (n + lane % 8) * PITCH + k + lane / 8 * 8);
    Right b;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(b.r[0]), "=r"(b.r[1]) : "r"(at));
    return b;
}

// B(k, n) = tile[k][n].
__device__ __forceinline__ Right load_columns(const Element *tile, int k, int n) {
    u32 at = shared_address(tile + (k + threadIdx.x % 16) * PITCH + n);
    Right b;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                 : "=r"(b.r[0]), "=r"(b.r[1]) : "r"(at));
    return b;
}

__device__ __forceinline__ Left left_of(const float acc[][4], int step) {
    Left a;
    a.r[0] = pair(acc[2 * step][0], acc[2 * step][1]);
    a.r[1] = pair(acc[2 * step][2], acc[2 * step][3]);
    a.r[2] = pair(acc[2 * step + 1][0], acc[2 * step + 1][1]);
    a.r[3] = pair(acc[2 * step + 1][2], acc[2 * step + 1][3]);
    return a;
}

__device__ __forceinline__ void multiply(float c[4], const Left &a, const Right &b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]));
}
#else
__device__ __forceinline__ u32 tf32(float x) {
    u32 out;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(out) : "f"(x));
    return out;
}

// A number in `terms` parts of tf32 each.
template <int N>
struct Parts {
    u32 high[N];
#if MODE == 2
    u32 low[N];
#endif
    __device__ __forceinline__ void set(int i, float x) {
        high[i] = tf32(x);
#if MODE == 2
        low[i] = tf32(x - __uint_as_float(high[i]));
#endif
    }
};
typedef Parts<4> Left;
typedef Parts<2> Right;

#define GROUP (threadIdx.x % 32 / 4)
#define MEMBER (threadIdx.x % 4)

__device__ __forceinline__ Left load_left(const Element *tile, int row, int k) {
    const float *at = tile + (row + GROUP) * PITCH + k + MEMBER;
    Left a;
    a.set(0, at[0]);
    a.set(1, at[8 * PITCH]);
    a.set(2, at[4]);
    a.set(3, at[8 * PITCH + 4]);
    return a;
}

__device__ __forceinline__ Right load_rows(const Element *tile, int n, int k) {
    const float *at = tile + (n + GROUP) * PITCH + k + MEMBER;
    Right b;
    b.set(0, at[0]);
    b.set(1, at[4]);
    return b;
}

__device__ __forceinline__ Right load_columns(const Element *tile, int k, int n) {
    const float *at = tile + (k + 2 * MEMBER) * PITCH + n + GROUP;
    Right b;
    b.set(0, at[0]);
    b.set(1, at[PITCH]);
    return b;
}

__device__ __forceinline__ Left left_of(const float acc[][4], int step) {
    Left a;
    a.set(0, acc[step][0]);
    a.set(1, acc[step][2]);
    a.set(2, acc[step][1]);
    a.set(3, acc[step][3]);
    return a;
}

__device__ __forceinline__ void multiply_tf32(float c[4], const u32 a[4], const u32 b[2]) {
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void multiply(float c[4], const Left &a, const Right &b) {
#if MODE == 2
    multiply_tf32(c, a.low, b.high);
    multiply_tf32(c, a.high, b.low);
#endif
    multiply_tf32(c, a.high, b.high);
}
#endif

// Rows first.. of one head into a tile; what lies outside is zero.
__device__ __forceinline__ void load_tile(Element *tile, const Element *rows, i64 pitch, int first, int len) {
    const int packs = WIDTH / VECTOR;
    for (int i = threadIdx.x; i < TILE * packs; i += THREADS) {
        int row = i / packs, column = i % packs * VECTOR;
        Pack<Element, VECTOR> p;
        const Element *from = rows + (first + row) * pitch + column;
#if HEAD % 8 == 0
        if (first + row < len && column < HEAD) {
            p = *(const Pack<Element, VECTOR> *)from;
        } else {
            for (int j = 0; j < VECTOR; j++) p.v[j] = narrow<Element>(0.0f);
        }
#else
        for (int j = 0; j < VECTOR; j++)
            p.v[j] = first + row < len && column + j < HEAD ? from[j] : narrow<Element>(0.0f);
#endif
        *(Pack<Element, VECTOR> *)(tile + row * PITCH + column) = p;
    }
}

// c[16, TILE] += left rows of a warp by the rows of `right`.
__device__ __forceinline__ void scores(float c[TILE / 8][4], const Element *left, int row, const Element *right) {
#pragma unroll
    for (int k = 0; k < WIDTH; k += DEPTH) {
        Left a = load_left(left, row, k);
#pragma unroll
        for (int j = 0; j < TILE / 8; j++) multiply(c[j], a, load_rows(right, j * 8, k));
    }
}

// c[16, WIDTH] += weights[16, TILE] by `right` [TILE, WIDTH].
__device__ __forceinline__ void combine(float c[WIDTH / 8][4], const float weights[TILE / 8][4], const Element *right) {
#pragma unroll
    for (int step = 0; step < TILE / DEPTH; step++) {
        Left a = left_of(weights, step);
#pragma unroll
        for (int j = 0; j < WIDTH / 8; j++) multiply(c[j], a, load_columns(right, step * DEPTH, j * 8));
    }
}

template <int N>
__device__ __forceinline__ void clear(float c[N][4]) {
#pragma unroll
    for (int j = 0; j < N; j++)
        for (int i = 0; i < 4; i++) c[j][i] = 0.0f;
}

// Two rows of a warp's result, `factor` apiece.
__device__ __forceinline__ void store(const float c[WIDTH / 8][4], Element *rows, i64 pitch, int first, int len,
                                      float top, float bottom) {
    int member = threadIdx.x % 4, row = first + threadIdx.x % 32 / 4;
#pragma unroll
    for (int j = 0; j < WIDTH / 8; j++)
        for (int i = 0; i < 4; i++) {
            int at = row + i / 2 * 8, column = j * 8 + member * 2 + i % 2;
            if (at < len && column < HEAD) rows[at * pitch + column] = narrow<Element>(c[j][i] * (i < 2 ? top : bottom));
        }
}

#define HEAD_OF(rows, len) (rows.data + (i64)blockIdx.z * (len) * rows.row + blockIdx.y * HEAD)
extern __shared__ __align__(16) unsigned char memory[];
#define TILE_AT(i) ((Element *)memory + (i) * TILE * PITCH)

extern "C" __global__ void __launch_bounds__(THREADS)
attention_forward(Shape shape, Rows q, Rows k, Rows v, Element *out, float *lse) {
    Element *qs = TILE_AT(0), *ks = TILE_AT(1), *vs = TILE_AT(2);
    int first = blockIdx.x * TILE, warp_row = threadIdx.x / 32 * 16;
    load_tile(qs, HEAD_OF(q, shape.q_len), q.row, first, shape.q_len);
    float o[WIDTH / 8][4], top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};
    clear<WIDTH / 8>(o);
    for (int at = 0; at < shape.kv_len; at += TILE) {
        __syncthreads();
        load_tile(ks, HEAD_OF(k, shape.kv_len), k.row, at, shape.kv_len);
        load_tile(vs, HEAD_OF(v, shape.kv_len), v.row, at, shape.kv_len);
        __syncthreads();
        if (first + warp_row >= shape.q_len) continue;
        float s[TILE / 8][4], best[2] = {top[0], top[1]};
        clear<TILE / 8>(s);
        scores(s, qs, warp_row, ks);
#pragma unroll
        for (int j = 0; j < TILE / 8; j++)
            for (int i = 0; i < 4; i++) {
                int column = at + j * 8 + threadIdx.x % 4 * 2 + i % 2;
                s[j][i] = column < shape.kv_len ? s[j][i] * shape.scale * LOG2E : -INFINITY;
                best[i / 2] = fmaxf(best[i / 2], s[j][i]);
            }
        for (int half = 0; half < 2; half++) {
            for (int step = 1; step < 4; step *= 2)
                best[half] = fmaxf(best[half], __shfl_xor_sync(~0u, best[half], step));
            float factor = exp2f(top[half] - best[half]);
            top[half] = best[half];
            sum[half] *= factor;
#pragma unroll
            for (int j = 0; j < WIDTH / 8; j++) {
                o[j][2 * half] *= factor;
                o[j][2 * half + 1] *= factor;
            }
        }
#pragma unroll
        for (int j = 0; j < TILE / 8; j++)
            for (int i = 0; i < 4; i++) {
                s[j][i] = exp2f(s[j][i] - top[i / 2]);
                sum[i / 2] += s[j][i];
            }
        combine(o, s, vs);
    }
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
                    (top[half] + log2f(sum[half])) / LOG2E;
        }
}

// Σ dO O of each row and head, [B, h, M]: one warp each.
extern "C" __global__ void attention_delta(Shape shape, const Element *out, const Element *grad, float *delta, i64 n) {
    i64 row = ((i64)blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (row >= n) return;
    i64 m = row % shape.q_len, head = row / shape.q_len % shape.heads, image = row / shape.q_len / shape.heads;
    i64 at = ((image * shape.q_len + m) * shape.heads + head) * HEAD;
    float sum = 0.0f;
    for (int i = lane; i < HEAD; i += 32) sum += widen(out[at + i]) * widen(grad[at + i]);
    sum = warp_sum(sum);
    if (lane == 0) delta[row] = sum;
}

#define STATISTICS_OF(x) ((x) + ((i64)blockIdx.z * shape.heads + blockIdx.y) * shape.q_len)

// dQ: a warp owns 16 queries and walks over the keys.
extern "C" __global__ void __launch_bounds__(THREADS)
attention_backward_queries(Shape shape, Rows q, Rows k, Rows v, Rows grad, const float *lse, const float *delta,
                           Element *dq, i64 dq_row) {
    Element *qs = TILE_AT(0), *gs = TILE_AT(1), *ks = TILE_AT(2), *vs = TILE_AT(3);
    int first = blockIdx.x * TILE, warp_row = threadIdx.x / 32 * 16;
    load_tile(qs, HEAD_OF(q, shape.q_len), q.row, first, shape.q_len);
    load_tile(gs, HEAD_OF(grad, shape.q_len), grad.row, first, shape.q_len);
    float l[2], d[2], sum[WIDTH / 8][4];
    for (int half = 0; half < 2; half++) {
        int row = first + warp_row + threadIdx.x % 32 / 4 + half * 8;
        l[half] = row < shape.q_len ? STATISTICS_OF(lse)[row] * LOG2E : INFINITY;
        d[half] = row < shape.q_len ? STATISTICS_OF(delta)[row] : 0.0f;
    }
    clear<WIDTH / 8>(sum);
    for (int at = 0; at < shape.kv_len; at += TILE) {
        __syncthreads();
        load_tile(ks, HEAD_OF(k, shape.kv_len), k.row, at, shape.kv_len);
        load_tile(vs, HEAD_OF(v, shape.kv_len), v.row, at, shape.kv_len);
        __syncthreads();
        if (first + warp_row >= shape.q_len) continue;
        float s[TILE / 8][4], dp[TILE / 8][4];
        clear<TILE / 8>(s);
        clear<TILE / 8>(dp);
        scores(s, qs, warp_row, ks);
        scores(dp, gs, warp_row, vs);
#pragma unroll
        for (int j = 0; j < TILE / 8; j++)
            for (int i = 0; i < 4; i++) {
                int column = at + j * 8 + threadIdx.x % 4 * 2 + i % 2;
                float p = column < shape.kv_len ? exp2f(s[j][i] * shape.scale * LOG2E - l[i / 2]) : 0.0f;
                s[j][i] = p * (dp[j][i] - d[i / 2]);
            }
        combine(sum, s, ks);
    }
    store(sum, dq + (i64)blockIdx.z * shape.q_len * dq_row + blockIdx.y * HEAD, dq_row, first + warp_row, shape.q_len,
          shape.scale, shape.scale);
}

// dK and dV: a warp owns 16 keys and walks over the queries; scores are held transposed.
extern "C" __global__ void __launch_bounds__(THREADS)
attention_backward_keys(Shape shape, Rows q, Rows k, Rows v, Rows grad, const float *lse, const float *delta,
                        Element *dk, Element *dv, i64 dkv_row) {
    Element *qs = TILE_AT(0), *gs = TILE_AT(1), *ks = TILE_AT(2), *vs = TILE_AT(3);
    __shared__ float l[TILE], d[TILE];
    int first = blockIdx.x * TILE, warp_row = threadIdx.x / 32 * 16;
    load_tile(ks, HEAD_OF(k, shape.kv_len), k.row, first, shape.kv_len);
    load_tile(vs, HEAD_OF(v, shape.kv_len), v.row, first, shape.kv_len);
    float key[WIDTH / 8][4], value[WIDTH / 8][4];
    clear<WIDTH / 8>(key);
    clear<WIDTH / 8>(value);
    for (int at = 0; at < shape.q_len; at += TILE) {
        __syncthreads();
        load_tile(qs, HEAD_OF(q, shape.q_len), q.row, at, shape.q_len);
        load_tile(gs, HEAD_OF(grad, shape.q_len), grad.row, at, shape.q_len);
        if (threadIdx.x < TILE) {
            int row = at + threadIdx.x;
            l[threadIdx.x] = row < shape.q_len ? STATISTICS_OF(lse)[row] * LOG2E : INFINITY;
            d[threadIdx.x] = row < shape.q_len ? STATISTICS_OF(delta)[row] : 0.0f;
        }
        __syncthreads();
        if (first + warp_row >= shape.kv_len) continue;
        float p[TILE / 8][4], ds[TILE / 8][4];
        clear<TILE / 8>(p);
        clear<TILE / 8>(ds);
        scores(p, ks, warp_row, qs);
        scores(ds, vs, warp_row, gs);
#pragma unroll
        for (int j = 0; j < TILE / 8; j++)
            for (int i = 0; i < 4; i++) {
                int column = j * 8 + threadIdx.x % 4 * 2 + i % 2;
                p[j][i] = exp2f(p[j][i] * shape.scale * LOG2E - l[column]);
                ds[j][i] = p[j][i] * (ds[j][i] - d[column]);
            }
        combine(value, p, gs);
        combine(key, ds, qs);
    }
    i64 at = (i64)blockIdx.z * shape.kv_len * dkv_row + blockIdx.y * HEAD;
    store(key, dk + at, dkv_row, first + warp_row, shape.kv_len, shape.scale, shape.scale);
    store(value, dv + at, dkv_row, first + warp_row, shape.kv_len, 1.0f, 1.0f);
}

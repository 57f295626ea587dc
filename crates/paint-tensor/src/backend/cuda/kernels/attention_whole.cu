// softmax(Q Kᵀ / sqrt(d)) V and its gradients for sequences that fit into shared memory as a whole, heads of 64
// channels, on Hopper: in bf16, or in fp16 (see tiles.cuh) where tf32 is asked for.
//
// One block works on one head of one image, or forward on one turn of it where heads are few. Blocks never share an
// output, so results are the same bits every time. T is TOKENS, the length rounded up to 16; a row of a tile takes 128
// bytes.
//
// Forward: 2 warpgroups, 2 blocks per multiprocessor.
//
//     shared   | K [T, 64]  | V [T, 64]  | Q [128 TURNS, 64]     |     T = 208: 1 + 26 + 26 + 32 = 85 KiB per block
//              +------------+------------+-----------------------+     (the first KiB is for alignment)
//     owner                                | wg 0 | wg 1 | wg 0 |..     64 queries per turn of a warpgroup
//
//     registers (128 per thread):  scores of up to 128 keys s[64], then as weights p[32];  result o[32];  4 statistics
//
//     per turn and part of the keys:   S = Q Kᵀ  ->  running maximum and sum  ->  P  ->  O += P V
//
// Backward: GROUPS warpgroups, ROWS is the length rounded up to 32.
//
//     shared   | Q | dO | K | V |  dS, GROUPS tiles  | shift, delta |     T = 208: 1 + 4 * 28 + 4 * 28 + 1.75 KiB =
//              +---+----+---+---+--------------------+--------------+     226.75 of the 227 KiB that a block may have
//     bytes      ROWS * 128 each  GROUPS * ROWS * 128  ROWS * 8
//
//     registers (128 or more):  dK key[32], dV value[32];  Sᵀ and dPᵀ of 32 queries, 16 each;  8 + 8 as fragments
//
//     1. warpgroup g owns keys 64 g.., and for every 32 queries:
//            Sᵀ = K Qᵀ,  dPᵀ = V dOᵀ  ->  Pᵀ,  dSᵀ = Pᵀ (dPᵀ - delta)  ->  dV += Pᵀ dO,  dK += dSᵀ Q,  and dSᵀ is kept
//     2. warpgroup g owns queries 64 g..:  dQ = dS K, from tile g of dS, [keys, 64 queries]
//
// The accumulators of one product are the left operand of the next as they are.

// Rows of a tile of the backward kernel, which takes 32 queries at once.
#define ROWS ((TOKENS + 31) / 32 * 32)
#define GROUPS ((ROWS + 63) / 64)

// The share of COUNT keys, from FIRST on, in the results of a warpgroup's 64 queries: weights relative to the largest
// score so far (`top`), their sum, and the weighted values `o`. The first part of the keys initialises all three; in
// a block's first turn it also waits for the values.
template <int FIRST, int COUNT>
__device__ __forceinline__ void attend(bool is_first, u32 tile, u32 ks, u32 vs, float factor, int len, bool weigh,
                                       float top[2], float sum[2], float o[32]) {
    float s[COUNT / 2];
    ready();
#pragma unroll
    for (int step = 0; step < 4; step++) {
        u64 a = operand(tile + step * 32), b = operand(ks + FIRST * ROW_BYTES + step * 32);
#pragma unroll
        for (int n = 0; n + 64 <= COUNT; n += 64) multiply_64<0>(s + n / 2, a, b + n * ROW_BYTES / 16, step);
        if (COUNT % 64 >= 32) multiply_32(s + COUNT / 64 * 32, a, b + COUNT / 64 * 64 * ROW_BYTES / 16, step);
        if (COUNT % 32) multiply_16(s + COUNT / 32 * 16, a, b + COUNT / 32 * 32 * ROW_BYTES / 16, step);
    }
    issued();
    done<0>();
    // The rows of a warp past the end are never stored, so their weights need not be computed.
    if (weigh) {
        // The length is within 16 of TOKENS: only the last 16 columns can lie past the end.
        if (FIRST + COUNT == TOKENS) EACH(j, i, 16) {
                const int last = COUNT / 8 - 2;
                if (FIRST + COLUMN(last + j, i) >= len) s[4 * (last + j) + i] = -INFINITY;
            }
        float best[2] = {s[0], s[2]};
        if (FIRST) best[0] = top[0], best[1] = top[1];
        EACH(j, i, COUNT) best[i / 2] = fmaxf(best[i / 2], s[4 * j + i]);
        float shift[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            for (int step = 1; step < 4; step *= 2)
                best[half] = fmaxf(best[half], __shfl_xor_sync(~0u, best[half], step));
            shift[half] = -best[half] * factor;
            if (FIRST) {
                float rest = fast_exp2(fmaf(top[half], factor, shift[half]));
                sum[half] *= rest;
#pragma unroll
                for (int j = 0; j < 8; j++) o[4 * j + 2 * half] *= rest, o[4 * j + 2 * half + 1] *= rest;
            } else {
                sum[half] = 0.0f;
            }
            top[half] = best[half];
        }
        EACH(j, i, COUNT) {
            s[4 * j + i] = fast_exp2(fmaf(s[4 * j + i], factor, shift[i / 2]));
            sum[i / 2] += s[4 * j + i];
        }
    }
    u32 p[COUNT / 4];
#pragma unroll
    for (int i = 0; i < COUNT / 4; i++) p[i] = pair(s[2 * i], s[2 * i + 1]);
    if (FIRST == 0 && is_first) arrived<0>();
    ready();
#pragma unroll
    for (int step = 0; step < COUNT / 16; step++)
        multiply_fragments(o, p + 4 * step, operand(vs + (FIRST + step * 16) * ROW_BYTES), FIRST + step);
    issued();
    done<0>();
}

// Keys of the first part: all of them, or as many as leave registers for a second block on the multiprocessor.
#define PART (TOKENS <= 128 ? TOKENS : 128)

extern "C" __global__ void __launch_bounds__(256, 2)
attention_whole_forward(Shape shape, Rows q, Rows k, Rows v, Element *out, float *lse) {
    after_earlier_work();
    u32 ks = first_tile(), vs = ks + TOKENS * ROW_BYTES, qs = vs + TOKENS * ROW_BYTES;
    int len = shape.q_len, group = threadIdx.x / 128;
    typedef Arriving<TOKENS, 256> Whole;
    Whole keys(ks, HEAD_OF(k, len), k.row, 0, len);
    float scale = shape.scale * keys.unit();
    Arriving<128 * TURNS, 256> queries(qs, HEAD_OF(q, len), q.row, 0, len);
    sent();
    scale *= queries.unit();
    Whole values(vs, HEAD_OF(v, len), v.row, 0, len);
    sent();
    float value_unit = values.unit();
    arrived<1>();
#pragma unroll 1
    for (int turn = blockIdx.x; turn < TURNS; turn += gridDim.x) {
        int first = (turn * 2 + group) * 64, row = first + WARP_ROW;
        bool is_first = turn == blockIdx.x;
        // Both warpgroups take the first turn, which has a barrier for all threads.
        if (!is_first && first >= len) return;
        u32 tile = qs + first * ROW_BYTES;
        float top[2], sum[2], o[32];
        attend<0, PART>(is_first, tile, ks, vs, scale * LOG2E, len, row < len, top, sum, o);
#if TOKENS > PART
        attend<PART, TOKENS - PART>(is_first, tile, ks, vs, scale * LOG2E, len, row < len, top, sum, o);
#endif
        for (int half = 0; half < 2; half++)
            for (int step = 1; step < 4; step *= 2) sum[half] += __shfl_xor_sync(~0u, sum[half], step);
        together(group);
        i64 width = (i64)shape.heads * HEAD;
        store(o, tile, WARP_ROW, out + (i64)blockIdx.z * len * width + blockIdx.y * HEAD, width, row, len,
              value_unit / sum[0], value_unit / sum[1]);
        if (LANE % 4 == 0)
            for (int half = 0; half < 2; half++) {
                int at = row + LANE / 4 + half * 8;
                if (at < len) STATISTICS_OF(lse)[at] = top[half] * scale + logf(sum[half]);
            }
    }
}

// All gradients of one head of one image.
extern "C" __global__ void __launch_bounds__(128 * GROUPS, GROUPS <= 2 ? 2 : 1)
attention_whole_backward(Shape shape, Rows q, Rows k, Rows v, Rows grad, const Element *out, const float *lse,
                         Element *dq, i64 dq_row, Element *dk, Element *dv, i64 dkv_row) {
    after_earlier_work();
    const int bytes = ROWS * ROW_BYTES;
    u32 qs = first_tile(), gs = qs + bytes, ks = gs + bytes, vs = ks + bytes, slopes = vs + bytes;
    float *shifts = (float *)(memory + (slopes - shared_address(memory)) + GROUPS * bytes), *deltas = shifts + ROWS;
    int len = shape.q_len, group = threadIdx.x / 128, own = group * 64 + WARP_ROW;
    const int COUNT = ROWS, THREADS = 128 * GROUPS;
    typedef Arriving<COUNT, THREADS> Whole;
    Whole keys(ks, HEAD_OF(k, len), k.row, 0, len), queries(qs, HEAD_OF(q, len), q.row, 0, len);
    float key_unit = keys.unit(), query_unit = queries.unit();
    Whole values(vs, HEAD_OF(v, len), v.row, 0, len), gradients(gs, HEAD_OF(grad, len), grad.row, 0, len);
    sent();
    i64 width = (i64)shape.heads * HEAD;
    out += (i64)blockIdx.z * len * width + blockIdx.y * HEAD;
    Pack<Element, 8> o[PASSES];
#pragma unroll
    for (int pass = 0; pass < PASSES; pass++)
        if (ROW_OF(pass) < len) o[pass] = *(const Pack<Element, 8> *)(out + ROW_OF(pass) * width + CHUNK * 8);
    float value_unit = values.unit(), gradient_unit = gradients.unit();
    arrived<0>();
    // For every query: minus the logarithm of its sum, and Σ dO O. The weights of queries past the end are zero.
#pragma unroll
    for (int pass = 0; pass < PASSES; pass++) {
        int row = ROW_OF(pass);
        float delta = 0.0f;
        if (row < len) {
            Pack<Element, 8> y = gradients.chunk(pass);
            for (int j = 0; j < 8; j++) delta += widen(o[pass].v[j]) * widen(y.v[j]);
        }
        for (int step = 4; step > 0; step /= 2) delta += __shfl_xor_sync(~0u, delta, step);
        if (CHUNK == 0 && row < ROWS) {
            shifts[row] = row < len ? STATISTICS_OF(lse)[row] * -LOG2E : -INFINITY;
            deltas[row] = delta / gradient_unit / value_unit;
        }
    }
    __syncthreads();
    float key[32], value[32], factor = shape.scale * LOG2E * key_unit * query_unit;
#pragma unroll 1
    for (int at = 0; at < ROWS; at += 32) {
        float s[16], dp[16];
        u32 weights[8], slope[8];
        ready();
#pragma unroll
        for (int step = 0; step < 4; step++)
            multiply_32(s, operand(ks + group * 64 * ROW_BYTES + step * 32),
                        operand(qs + at * ROW_BYTES + step * 32), step);
        issued();
#pragma unroll
        for (int step = 0; step < 4; step++)
            multiply_32(dp, operand(vs + group * 64 * ROW_BYTES + step * 32),
                        operand(gs + at * ROW_BYTES + step * 32), step);
        issued();
        done<1>();
        if (own < len)
            EACH(j, i, 32) s[4 * j + i] = fast_exp2(fmaf(s[4 * j + i], factor, shifts[at + COLUMN(j, i)]));
        done<0>();
        if (own < len)
            EACH(j, i, 32) dp[4 * j + i] = s[4 * j + i] * (dp[4 * j + i] - deltas[at + COLUMN(j, i)]);
#pragma unroll
        for (int i = 0; i < 8; i++) {
            weights[i] = pair(s[2 * i], s[2 * i + 1]);
            slope[i] = pair(dp[2 * i], dp[2 * i + 1]);
        }
        ready();
#pragma unroll
        for (int step = 0; step < 2; step++) {
            bool more = at + step;
            multiply_fragments(value, weights + 4 * step, operand(gs + (at + 16 * step) * ROW_BYTES), more);
            multiply_fragments(key, slope + 4 * step, operand(qs + (at + 16 * step) * ROW_BYTES), more);
        }
        issued();
        if (own < len)
#pragma unroll
            for (int i = 0; i < 8; i++) {
                int row = own + LANE / 4 + i % 2 * 8;
                u32 to = slopes + at / 64 * bytes + chunk_at(row, at % 64 / 8 + i / 2) + LANE % 4 * 4;
                // A key past the end has scores of zero, which may be so far above the others that its weight is
                // infinite.
                asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(row < len ? slope[i] : 0) : "memory");
            }
        done<0>();
    }
    publish();
    __syncthreads();
    float query[32];
    ready();
    for (int at = 0; at < len; at += 16)
        multiply_64<1>(query, operand(slopes + group * bytes + at * ROW_BYTES), operand(ks + at * ROW_BYTES), at);
    issued();
    i64 head = (i64)blockIdx.z * len;
    float slope_unit = shape.scale * gradient_unit * value_unit;
    float of_query = slope_unit * key_unit, of_key = slope_unit * query_unit;
    if (own < len) {
        store(value, vs, own, dv + head * dkv_row + blockIdx.y * HEAD, dkv_row, own, len, gradient_unit,
              gradient_unit);
        store(key, gs, own, dk + head * dkv_row + blockIdx.y * HEAD, dkv_row, own, len, of_key, of_key);
    }
    done<0>();
    if (own < len)
        store(query, qs, own, dq + head * dq_row + blockIdx.y * HEAD, dq_row, own, len, of_query, of_query);
}

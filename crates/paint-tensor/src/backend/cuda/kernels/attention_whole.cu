// softmax(Q Kᵀ / sqrt(d)) V and its gradients for sequences whose keys and values fit into shared memory as a whole, heads
// of 64 channels, on Hopper: in bf16, or in fp16 for what tf32 would do.
//
// TOKENS is the length rounded up to 16. A warpgroup owns 64 rows of a result; the two of a block of the forward kernel take
// TURNS of them each. Accumulators of one product are the left operand of the next as they
// stand. Blocks never share an output, so results are the same bits every time.

// Rows of a tile of the gradients, which take 32 queries at once.
#define ROWS ((TOKENS + 31) / 32 * 32)
#define GROUPS ((ROWS + 63) / 64)

// What COUNT keys from FIRST on mean for a warpgroup's 64 queries in a tile: weights relative to the largest score so far,
// their sum, and the values they weigh. The first part begins all three; in the first turn it waits for the values.
template <int FIRST, int COUNT>
__device__ __forceinline__ void attend(int turn, u32 tile, u32 ks, u32 vs, float factor, int len, bool weigh,
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
    // A warp past the end has nothing to weigh; what it multiplies below is never stored.
    if (weigh) {
        // The length rounds up to TOKENS: only the last 16 columns can lie past the end.
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
    if (FIRST == 0 && turn == 0) arrived<0>();
    ready();
#pragma unroll
    for (int step = 0; step < COUNT / 16; step++)
        multiply_fragments(o, p + 4 * step, operand(vs + (FIRST + step * 16) * ROW_BYTES), FIRST + step);
    issued();
    done<0>();
}

// Keys of the first part: all, or as many as leave registers for a second block beside this one.
#define PART (TOKENS <= 128 ? TOKENS : 128)

extern "C" __global__ void __launch_bounds__(256, 2)
attention_whole_forward(Shape shape, Rows q, Rows k, Rows v, Element *out, float *lse) {
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
    for (int turn = 0; turn < TURNS; turn++) {
        int first = (turn * 2 + group) * 64, row = first + WARP_ROW;
        // Both groups take the first turn, in which all threads meet.
        if (turn && first >= len) return;
        u32 tile = qs + first * ROW_BYTES;
        float top[2], sum[2], o[32];
        attend<0, PART>(turn, tile, ks, vs, scale * LOG2E, len, row < len, top, sum, o);
#if TOKENS > PART
        attend<PART, TOKENS - PART>(turn, tile, ks, vs, scale * LOG2E, len, row < len, top, sum, o);
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

// All gradients of one head of one image. A warpgroup owns 64 keys, with scores held transposed, and then 64 queries: what
// all of them found about the scores lies in shared memory by then.
extern "C" __global__ void __launch_bounds__(128 * GROUPS, GROUPS <= 2 ? 2 : 1)
attention_whole_backward(Shape shape, Rows q, Rows k, Rows v, Rows grad, const Element *out, const float *lse,
                         Element *dq, i64 dq_row, Element *dk, Element *dv, i64 dkv_row) {
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
    // Of every query: minus the logarithm of its sum, and Σ dO O. Queries past the end weigh nothing.
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
            multiply_32(s, operand(ks + group * 64 * ROW_BYTES + step * 32), operand(qs + at * ROW_BYTES + step * 32), step);
        issued();
#pragma unroll
        for (int step = 0; step < 4; step++)
            multiply_32(dp, operand(vs + group * 64 * ROW_BYTES + step * 32), operand(gs + at * ROW_BYTES + step * 32), step);
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
                // A key past the end has scores of zero, which may be infinitely above those of others.
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
        store(value, vs, own, dv + head * dkv_row + blockIdx.y * HEAD, dkv_row, own, len, gradient_unit, gradient_unit);
        store(key, gs, own, dk + head * dkv_row + blockIdx.y * HEAD, dkv_row, own, len, of_key, of_key);
    }
    done<0>();
    if (own < len) store(query, qs, own, dq + head * dq_row + blockIdx.y * HEAD, dq_row, own, len, of_query, of_query);
}

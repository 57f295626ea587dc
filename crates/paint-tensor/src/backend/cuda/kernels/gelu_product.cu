// Products with GELU on Hopper, in tf32 with f32 rows: GELU(A Bᵀ + bias), also with the argument of GELU stored, or A Bᵀ
// times the derivative of GELU at a stored argument. A is [m, k], B is [n, k] and n a multiple of TILE.
//
// Blocks stay for many tiles of TILE x TILE. Two neighbours (a cluster) work on two tiles, one above the other, which
// share their part of B: each block fetches half of it for both.
//
//     shared   | stage 0: A [TILE rows], B [TILE columns] | stage 1 | ..  STAGES of 32 KiB, 32 numbers deep
//              +------------------------------------------+---------+---
//     warpgroup 0   one thread of it asks for the stages of all tiles, one after the other
//     warpgroup 1   tiles 0, 2, 4, ..     sums | finish |      | sums | finish |
//     warpgroup 2   tiles 1, 3, 5, ..            | sums | finish |      | sums | finish |
//
// While one warpgroup finishes its tile the tensor cores work for the other. A stage is free again when eight warps have
// said so: four that multiplied it, in each block of the pair, because its B comes from both.
//
// Sums leave the registers through shared memory, 16 rows of a warp by 64 columns at a time, so that a row is read and
// written in pieces of 256 bytes. What is read beside a piece is on its way while the piece before it is finished.

#define OPERAND_BYTES (TILE * ROW_BYTES)
#define STAGE_BYTES (2 * OPERAND_BYTES)
#define PIECES (2 * TILE / PIECE)
#define PASSING (16 * PITCH)
// A lane finishes four neighbours of every other row of a piece.
#define PASSES 8

#define LANE ((int)threadIdx.x % 32)
#define WARP ((int)threadIdx.x % 128 / 32)

// What the driver writes about a matrix for asynchronous copies of its tiles.
struct Map {
    alignas(64) i64 words[16];
};

struct Sizes {
    int m, n, k;
};

extern __shared__ char memory[];

// A barrier whose phase ends with so many arrivals.
__device__ __forceinline__ void begin(u32 barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ __forceinline__ void arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// The same at the barrier of a block of the cluster.
__device__ __forceinline__ void arrive_at(u32 barrier, int block) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}\n" ::"r"(barrier), "r"(block) : "memory");
}

// Arrives; the phase ends only after so many bytes, too.
__device__ __forceinline__ void expect(u32 barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Waits for the end of a phase. For a barrier in its first phase those of odd parity have ended.
__device__ __forceinline__ void wait(u32 barrier, u32 parity) {
    asm volatile("{\n.reg .pred ended;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
                 "@ended bra over;\nbra again;\nover:\n}\n" ::"r"(barrier), "r"(parity) : "memory");
}

// All blocks of the cluster wait for each other.
__device__ __forceinline__ void meet() {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

#define FETCH "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"

__device__ __forceinline__ void fetch(u32 to, const Map &map, int x, int y, u32 barrier) {
    asm volatile(FETCH " [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

// To the same place in every block of the cluster, whose barriers count the bytes.
__device__ __forceinline__ void fetch_for_all(u32 to, const Map &map, int x, int y, u32 barrier) {
    asm volatile(FETCH ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"((u16)((1 << CLUSTER) - 1)) : "memory");
}

#define SIXTY_FOUR(d)                                                                                             \
    EIGHT(d, 0), EIGHT(d, 8), EIGHT(d, 16), EIGHT(d, 24), EIGHT(d, 32), EIGHT(d, 40), EIGHT(d, 48), EIGHT(d, 56)
#define SIXTY_FOUR_NAMES                                                                                             \
    THIRTY_TWO_NAMES ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49" \
                     ", %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// d[64, TILE] (+)= a[64, 8] b[8, TILE], of tiles.
__device__ __forceinline__ void multiply_tile(float *d, u64 a, u64 b, bool more) {
    asm volatile(BEGIN("%66") "m64n128k8.f32.tf32.tf32 {" SIXTY_FOUR_NAMES "}, %64, %65, more, 1, 1;\n}\n"
                 : SIXTY_FOUR(d) : "l"(a), "l"(b), "r"((int)more));
}

__device__ __forceinline__ float fast_inverse(float x) {
    float out;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
}

// Φ and e^(-x²/2), with the error function of Abramowitz and Stegun 7.1.26, which is off by 1.5e-7 before rounding.
__device__ __forceinline__ float normal_cdf(float x, float &bell) {
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(bell) : "f"(x * x * -0.72134752f));
    float t = fast_inverse(fmaf(fabsf(x), 0.23164189f, 1.0f)), tail = fmaf(t, 0.5307027145f, -0.7265760135f);
    tail = fmaf(t, fmaf(t, fmaf(t, tail, 0.7107068705f), -0.142248368f), 0.127414796f) * t * bell;
    return x < 0.0f ? tail : 1.0f - tail;
}

// What becomes of a sum; `beside` is the stored argument.
__device__ __forceinline__ float finished(float x, float beside) {
    float bell, at = FINISH == FINISH_GRADIENT ? beside : x, cdf = normal_cdf(at, bell);
    return x * (FINISH == FINISH_GRADIENT ? fmaf(at * 0.39894228f, bell, cdf) : cdf);
}

typedef Pack<float, 4> Four;

// A lane's first element of a tile, and how many rows there are from its row on.
struct Place {
    i64 at;
    int pitch, count;

    __device__ __forceinline__ bool has(int piece, int pass) const { return piece / 2 * 64 + pass * 2 < count; }
    __device__ __forceinline__ i64 of(int piece, int pass) const {
        return at + (i64)(piece / 2 * 64 + pass * 2) * pitch + piece % 2 * PIECE;
    }
};

// Finishes a warp's part of a tile, four pieces: the left and the right one of its rows in the upper and the lower half.
// `beside` is what the first of them is to be combined with.
__device__ __forceinline__ void finish(const float *sums, char *passing, Place place, const float *bias, Four *beside,
                                       float *argument, float *out) {
    char *own = passing + LANE / 4 * PITCH + LANE % 4 * 8;
    const char *read = passing + LANE / 16 * PITCH + LANE % 16 * 16;
#pragma unroll
    for (int piece = 0; piece < PIECES; piece++) {
#pragma unroll
        for (int j = 0; j < PIECE / 8; j++) {
            const float *x = sums + (piece * PIECE / 8 + j) * 4;
            *(float2 *)(own + j * 32) = make_float2(x[0], x[1]);
            *(float2 *)(own + 8 * PITCH + j * 32) = make_float2(x[2], x[3]);
        }
        __syncwarp();
        Four b = {};
        if (FINISH != FINISH_GRADIENT) b = *(const Four *)(bias + piece % 2 * PIECE);
#pragma unroll
        for (int pass = 0; pass < PASSES; pass++) {
            bool inside = place.has(piece, pass);
            i64 to = place.of(piece, pass);
            Four x = *(const Four *)(read + 2 * pass * PITCH), y = beside[pass];
            if (FINISH == FINISH_GRADIENT && piece + 1 < PIECES && place.has(piece + 1, pass))
                beside[pass] = *(const Four *)(argument + place.of(piece + 1, pass));
            for (int i = 0; i < 4; i++) x.v[i] += b.v[i];
            if (FINISH == FINISH_WITH_ARGUMENT && inside) *(Four *)(argument + to) = x;
            for (int i = 0; i < 4; i++) x.v[i] = finished(x.v[i], y.v[i]);
            if (inside) *(Four *)(out + to) = x;
        }
        __syncwarp();
    }
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(384, 1)
gelu_product(const __grid_constant__ Map a, const __grid_constant__ Map b, Sizes sizes, const float *bias,
             float *argument, float *out) {
    after_earlier_work();
    u32 stages = (shared_address(memory) + 1023) / 1024 * 1024;
    char *passing = memory + (stages - shared_address(memory)) + STAGES * STAGE_BYTES;
    u32 full = shared_address(passing) + 8 * PASSING, empty = full + STAGES * 8, turns = empty + STAGES * 8;
    int block = blockIdx.x % CLUSTER, group = threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; stage++) {
            begin(full + stage * 8, 1);
            begin(empty + stage * 8, 4 * CLUSTER);
        }
        begin(turns, 4);
        begin(turns + 8, 4);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    meet();
    int steps = (sizes.k + DEPTH - 1) / DEPTH, across = sizes.n / TILE;
    int pairs = (sizes.m + CLUSTER * TILE - 1) / (CLUSTER * TILE) * across;
    int first = blockIdx.x / CLUSTER, clusters = gridDim.x / CLUSTER;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            int stage = 0;
            u32 parity = 1;
            for (int pair = first; pair < pairs; pair += clusters) {
                int row = (pair / across * CLUSTER + block) * TILE;
                int column = pair % across * TILE + block * (TILE / CLUSTER);
                for (int depth = 0; depth < steps * DEPTH; depth += DEPTH) {
                    u32 left = stages + stage * STAGE_BYTES, arrived = full + stage * 8;
                    wait(empty + stage * 8, parity);
                    expect(arrived, STAGE_BYTES);
                    fetch(left, a, depth, row, arrived);
                    fetch_for_all(left + OPERAND_BYTES + block * (OPERAND_BYTES / CLUSTER), b, depth, column, arrived);
                    if (++stage == STAGES) stage = 0, parity ^= 1;
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        int member = group - 1;
        u32 turn = member ^ 1;
        for (int pair = first + member * clusters, tile = member; pair < pairs; pair += 2 * clusters, tile += 2) {
            int row = (pair / across * CLUSTER + block) * TILE + WARP * 16 + LANE / 16;
            int column = pair % across * TILE + LANE % 16 * 4;
            Place place = {(i64)row * sizes.n + column, sizes.n, sizes.m - row};
            float sums[PIECES * PIECE / 2];
            int used = tile * steps, stage = used % STAGES, before = 0;
            u32 parity = used / STAGES & 1;
            wait(turns + member * 8, turn);
            turn ^= 1;
            for (int step = 0; step < steps; step++) {
                wait(full + stage * 8, parity);
                u32 left = stages + stage * STAGE_BYTES, right = left + OPERAND_BYTES;
                ready();
#pragma unroll
                for (int part = 0; part < 4; part++)
#pragma unroll
                    for (int half = 0; half < 2; half++)
                        multiply_tile(sums + half * 64, operand(left + half * (OPERAND_BYTES / 2) + part * 32),
                                      operand(right + part * 32), step | part);
                issued();
                if (step) {
                    done<1>();
                    if (LANE < CLUSTER) arrive_at(empty + before * 8, LANE);
                }
                before = stage;
                if (++stage == STAGES) stage = 0, parity ^= 1;
            }
            if (LANE == 0) arrive(turns + (member ^ 1) * 8);
            Four beside[PASSES] = {};
            if (FINISH == FINISH_GRADIENT)
#pragma unroll
                for (int pass = 0; pass < PASSES; pass++)
                    if (place.has(0, pass)) beside[pass] = *(const Four *)(argument + place.of(0, pass));
            done<0>();
            if (LANE < CLUSTER) arrive_at(empty + before * 8, LANE);
            finish(sums, passing + (member * 4 + WARP) * PASSING, place, bias + column, beside, argument, out);
        }
    }
    // A block must stay until its partner no longer arrives at its barriers.
    meet();
}

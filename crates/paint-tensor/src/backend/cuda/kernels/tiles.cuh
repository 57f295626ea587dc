// How the rows of a head get into tiles of 16-bit numbers, and results out of accumulators.
//
// A tile has rows of 64 channels, 8 chunks of 16 bytes. Chunk c of row r is stored at place c ^ (r % 8), so that
// neither a row of chunks nor a column of them meets a memory bank twice:
//
//     byte    0    16   32   48   64   80   96   112
//     row 0 | 0  | 1  | 2  | 3  | 4  | 5  | 6  | 7  |
//     row 1 | 1  | 0  | 3  | 2  | 5  | 4  | 7  | 6  |     8 rows are an atom of 1024 bytes;
//     row 2 | 2  | 3  | 0  | 1  | 6  | 7  | 4  | 5  |     a tile begins at a multiple of that
//      ...
//     row 7 | 7  | 6  | 5  | 4  | 3  | 2  | 1  | 0  |
//     row 8 | 0  | 1  | 2  | ...                          the next atom
//
// Thread t of a block brings chunk t % 8 of row t / 8, and in each further pass of the row THREADS / 8 below. In bf16
// that takes no registers, the copy is asynchronous; for f32 rows a thread holds 8 numbers for every pass: ceil(8
// COUNT / THREADS) passes, so 56 registers for 224 rows and 256 threads.
//
// Accumulators of a warpgroup's product, 64 rows by N columns: warp w has rows 16 w .. 16 w + 15, and of those lane l
// has rows l / 4 and l / 4 + 8, in each block j of 8 columns the two from 2 (l % 4):
//
//     c[4 j], c[4 j + 1]      row l / 4       columns 8 j + 2 (l % 4), and the next
//     c[4 j + 2], c[4 j + 3]  row l / 4 + 8   the same columns
//
// Rows of f32 become fp16, which has as many significant bits as tf32, times a power of two that brings the largest
// of them to [8, 16). What then falls below the range of fp16 is less than 2^-17 of the largest. The inverse of that
// power is the tile's unit.

// The first address where an atom may begin.
__device__ __forceinline__ u32 first_tile() { return (shared_address(memory) + 1023) / 1024 * 1024; }

#define LANE (threadIdx.x % 32)
#define WARP_ROW (threadIdx.x % 128 / 32 * 16)

// `Arriving` is COUNT rows of one head, from `first` on, on their way into a tile; rows past the end are zero. A
// thread's part in a pass is CHUNK of row ROW_OF(pass).
#define ROW_OF(pass) ((int)(threadIdx.x + (pass) * THREADS) / 8)
#define CHUNK ((int)threadIdx.x % 8)
#define PASSES ((COUNT * 8 + THREADS - 1) / THREADS)

#if MODE == MODE_BF16
template <int COUNT, int THREADS>
struct Arriving {
    u32 tile;

    __device__ __forceinline__ Arriving(u32 tile, const Element *rows, i64 pitch, int first, int len) : tile(tile) {
#pragma unroll
        for (int pass = 0; pass < PASSES; pass++) {
            int row = ROW_OF(pass);
            bool inside = first + row < len;
            if (row < COUNT)
                send(tile + chunk_at(row, CHUNK), inside ? rows + (first + row) * pitch + CHUNK * 8 : rows, inside);
        }
    }

    __device__ __forceinline__ float unit() const { return 1.0f; }

    // Valid once the tile has arrived.
    __device__ __forceinline__ Pack<Element, 8> chunk(int pass) const {
        return *(const Pack<Element, 8> *)(memory + (tile - shared_address(memory)) + chunk_at(ROW_OF(pass), CHUNK));
    }
};

// Writes a warp's 16 rows, the first 8 times `top` and the others times `bottom`, by way of its rows of a tile that
// is free.
__device__ __forceinline__ void store(const float *c, u32 tile, int tile_row, Element *rows, i64 pitch, int first,
                                      int len, float top, float bottom) {
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float factor = half ? bottom : top;
            u32 to = tile + chunk_at(tile_row + LANE / 4 + half * 8, j) + LANE % 4 * 4;
            u32 both = pair(c[4 * j + 2 * half] * factor, c[4 * j + 2 * half + 1] * factor);
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(both) : "memory");
        }
    __syncwarp();
#pragma unroll
    for (int i = LANE; i < 128; i += 32) {
        int row = i / 8, chunk = i % 8;
        if (first + row >= len) continue;
        Pack<u32, 4> eight;
        asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(eight.v[0]), "=r"(eight.v[1]), "=r"(eight.v[2]), "=r"(eight.v[3])
                     : "r"(tile + chunk_at(tile_row + row, chunk)) : "memory");
        *(Pack<u32, 4> *)(rows + (first + row) * pitch + chunk * 8) = eight;
    }
}
#else
template <int COUNT, int THREADS>
struct Arriving {
    u32 tile;
    Pack<float, 8> held[PASSES];

    __device__ __forceinline__ Arriving(u32 tile, const Element *rows, i64 pitch, int first, int len) : tile(tile) {
#pragma unroll
        for (int pass = 0; pass < PASSES; pass++) {
            int row = ROW_OF(pass);
            held[pass] = {};
            if (row < COUNT && first + row < len)
                held[pass] = *(const Pack<float, 8> *)(rows + (first + row) * pitch + CHUNK * 8);
        }
    }

    // Writes the tile and returns its unit. All threads take part, to find the largest number.
    __device__ __forceinline__ float unit() const {
        u32 *most = (u32 *)(memory + (tile - shared_address(memory))), top = 0;
#pragma unroll
        for (int pass = 0; pass < PASSES; pass++)
#pragma unroll
            for (int i = 0; i < 8; i++) top = max(top, __float_as_uint(fabsf(held[pass].v[i])));
        top = __reduce_max_sync(~0u, top);
        if (LANE == 0) most[threadIdx.x / 32] = top;
        __syncthreads();
        for (int warp = 0; warp < THREADS / 32; warp++) top = max(top, most[warp]);
        __syncthreads();
        // Numbers below 2^-60 count as zeros, so that the product of two units is not zero.
        u32 exponent = max(top >> 23, 127u - 60u);
        float factor = __uint_as_float((2 * 127 + 3 - exponent) << 23);
#pragma unroll
        for (int pass = 0; pass < PASSES; pass++) {
            const float *x = held[pass].v;
            if (ROW_OF(pass) < COUNT)
                asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(tile + chunk_at(ROW_OF(pass), CHUNK)),
                             "r"(pair(x[0] * factor, x[1] * factor)), "r"(pair(x[2] * factor, x[3] * factor)),
                             "r"(pair(x[4] * factor, x[5] * factor)), "r"(pair(x[6] * factor, x[7] * factor))
                             : "memory");
        }
        return __uint_as_float((exponent - 3) << 23);
    }

    __device__ __forceinline__ Pack<Element, 8> chunk(int pass) const { return held[pass]; }
};

// Writes a warp's 16 rows, the first 8 times `top` and the others times `bottom`; four lanes write a sector of memory.
__device__ __forceinline__ void store(const float *c, u32, int, Element *rows, i64 pitch, int first, int len, float top,
                                      float bottom) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        int row = first + LANE / 4 + half * 8;
        float factor = half ? bottom : top;
#pragma unroll
        for (int j = 0; j < 8 && row < len; j++)
            *(Pack<float, 2> *)(rows + row * pitch + j * 8 + LANE % 4 * 2) =
                {c[4 * j + 2 * half] * factor, c[4 * j + 2 * half + 1] * factor};
    }
}
#endif

// A barrier for the warps of one warpgroup.
__device__ __forceinline__ void together(int group) {
    // With a number known when it is compiled: a barrier chosen at run time would reserve all of them.
    if (group == 0) asm volatile("bar.sync 1, 128;" ::: "memory");
    else asm volatile("bar.sync 2, 128;" ::: "memory");
}

// Waits for all groups of copies but the last `pending`, of all threads.
template <int pending>
__device__ __forceinline__ void arrived() {
    received<pending>();
    publish();
    __syncthreads();
}

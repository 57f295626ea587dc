// Products of a warpgroup, four warps that own 64 rows together. Operands are tiles in shared memory (tiles.cuh shows
// their layout), or the left one is in registers. Hopper only (sm_90a).
//
// Numbers are bf16 in MODE_BF16 and fp16 otherwise. A product contracts a tile's columns or, `transposed`, its rows. An
// operand's descriptor says that an atom of eight rows follows 1024 bytes after the one before, with permuted chunks.

#define ROW_BYTES 128

#if MODE == MODE_BF16
#define PRODUCT "bf16.bf16"
#else
#define PRODUCT "f16.f16"
#endif

__device__ __forceinline__ u32 chunk_at(int row, int chunk) { return row * ROW_BYTES + ((chunk ^ row % 8) << 4); }

__device__ __forceinline__ u64 operand(u32 tile) {
    return (u64)(tile >> 4 & 0x3fff) | 1ull << 16 | (u64)(8 * ROW_BYTES >> 4) << 32 | 1ull << 62;
}

// Makes accumulators and fragments that were written to registers visible to products.
__device__ __forceinline__ void ready() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Ends a group of products.
__device__ __forceinline__ void issued() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits for all groups but the last `pending`.
template <int pending>
__device__ __forceinline__ void done() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Lets products read what this thread wrote to shared memory, after a barrier.
__device__ __forceinline__ void publish() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#define EIGHT(d, i)                                                                                              \
    "+f"((d)[i]), "+f"((d)[i + 1]), "+f"((d)[i + 2]), "+f"((d)[i + 3]), "+f"((d)[i + 4]), "+f"((d)[i + 5]), \
        "+f"((d)[i + 6]), "+f"((d)[i + 7])
#define BEGIN(more) "{\n.reg .pred more;\nsetp.ne.b32 more, " more ", 0;\nwgmma.mma_async.sync.aligned."
#define EIGHT_NAMES "%0, %1, %2, %3, %4, %5, %6, %7"
#define SIXTEEN_NAMES EIGHT_NAMES ", %8, %9, %10, %11, %12, %13, %14, %15"
#define THIRTY_TWO_NAMES \
    SIXTEEN_NAMES ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"

// d[64, 16] (+)= a[64, 16] b[16, 16], of tiles.
__device__ __forceinline__ void multiply_16(float *d, u64 a, u64 b, bool more) {
    asm volatile(BEGIN("%10") "m64n16k16.f32." PRODUCT " {" EIGHT_NAMES "}, %8, %9, more, 1, 1, 0, 0;\n}\n"
                 : EIGHT(d, 0) : "l"(a), "l"(b), "r"((int)more));
}

// d[64, 32] (+)= a[64, 16] b[16, 32], of tiles.
__device__ __forceinline__ void multiply_32(float *d, u64 a, u64 b, bool more) {
    asm volatile(BEGIN("%18") "m64n32k16.f32." PRODUCT " {" SIXTEEN_NAMES "}, %16, %17, more, 1, 1, 0, 0;\n}\n"
                 : EIGHT(d, 0), EIGHT(d, 8) : "l"(a), "l"(b), "r"((int)more));
}

// d[64, 64] (+)= a[64, 16] b[16, 64], of tiles, both transposed or neither.
template <int transposed>
__device__ __forceinline__ void multiply_64(float *d, u64 a, u64 b, bool more) {
    asm volatile(BEGIN("%34") "m64n64k16.f32." PRODUCT " {" THIRTY_TWO_NAMES "}, %32, %33, more, 1, 1, %35, %35;\n}\n"
                 : EIGHT(d, 0), EIGHT(d, 8), EIGHT(d, 16), EIGHT(d, 24)
                 : "l"(a), "l"(b), "r"((int)more), "n"(transposed));
}

// d[64, 64] (+)= a[64, 16] b[16, 64]: fragments by a transposed tile.
__device__ __forceinline__ void multiply_fragments(float *d, const u32 *a, u64 b, bool more) {
    asm volatile(BEGIN("%37") "m64n64k16.f32." PRODUCT " {" THIRTY_TWO_NAMES
                              "}, {%32, %33, %34, %35}, %36, more, 1, 1, 1;\n}\n"
                 : EIGHT(d, 0), EIGHT(d, 8), EIGHT(d, 16), EIGHT(d, 24)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)more));
}

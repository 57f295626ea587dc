// What the attention kernels share: where the rows of a head are, copies into shared memory, and exponentials.
//
// MODE is the arithmetic: MODE_BF16; MODE_TF32, f32 storage with tf32 products; or MODE_F32, f32 storage with three
// tf32 products for each f32 one (high·high + high·low + low·high).

#if MODE == MODE_BF16
typedef bf16 Element;
#else
typedef float Element;
#endif

#define LOG2E 1.4426950408889634f

struct Rows {
    const Element *data;
    i64 row;
};

struct Shape {
    int heads, q_len, kv_len;
    float scale;
};

// A block works on head `blockIdx.y` of image `blockIdx.z`.
#define HEAD_OF(rows, len) (rows.data + (i64)blockIdx.z * (len) * rows.row + blockIdx.y * HEAD)
#define STATISTICS_OF(x) ((x) + ((i64)blockIdx.z * shape.heads + blockIdx.y) * shape.q_len)
// The column of accumulator (j, i) of a product; its row is the first or second of the lane's two, `i / 2`.
#define COLUMN(j, i) ((j) * 8 + threadIdx.x % 4 * 2 + (i) % 2)

#define EACH(j, i, n) _Pragma("unroll") for (int j = 0; j < (n) / 8; j++) _Pragma("unroll") for (int i = 0; i < 4; i++)

extern __shared__ __align__(16) unsigned char memory[];

// Two numbers in 16 bits each, as the tensor cores read them.
__device__ __forceinline__ u32 pair(float low, float high) {
    u32 out;
#if MODE == MODE_BF16
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
#else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(out) : "f"(high), "f"(low));
#endif
    return out;
}

__device__ __forceinline__ float fast_exp2(float x) {
    float out;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
    return out;
}

// Starts a copy of 16 bytes, or of zeros.
__device__ __forceinline__ void send(u32 to, const Element *from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0));
}

// Ends a group of copies.
__device__ __forceinline__ void sent() { asm volatile("cp.async.commit_group;"); }

// Waits for this thread's copies of all groups but the last `pending`.
template <int pending>
__device__ __forceinline__ void received() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

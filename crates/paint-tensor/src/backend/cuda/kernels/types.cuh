// The start of every kernel file: element types, conversions, the ReLU, the wait for earlier work, and sums over a warp
// or a block. No header is included, so that compiling at run time needs no CUDA toolkit on the machine.

typedef unsigned short u16;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#define INFINITY __int_as_float(0x7f800000)

struct alignas(2) bf16 {
    u16 bits;
};

__device__ __forceinline__ float widen(float x) { return x; }
__device__ __forceinline__ float widen(bf16 x) { return __uint_as_float((u32)x.bits << 16); }

template <class T>
__device__ __forceinline__ T narrow(float x);
template <>
__device__ __forceinline__ float narrow<float>(float x) {
    return x;
}
template <>
__device__ __forceinline__ bf16 narrow<bf16>(float x) {
    bf16 out;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
    return out;
}

// NaN passes both, as on the CPU.
__device__ __forceinline__ float relu(float x) { return x > 0.0f || x != x ? x : 0.0f; }
__device__ __forceinline__ float step(float x) { return x > 0.0f ? 1.0f : x != x ? x : 0.0f; }

// N elements that are loaded and stored as one.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
    T v[N];
};

// Where something in shared memory is, as instructions name it.
__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

// The first statement of every kernel. From Hopper on, the blocks of a kernel may start while the one before it ends;
// they wait here until all that was queued earlier is done and its results can be read.
__device__ __forceinline__ void after_earlier_work() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

#define FOR_ELEMENTS(i, n) \
    for (i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += (i64)gridDim.x * blockDim.x)

template <class T>
__device__ __forceinline__ T warp_sum(T x) {
    for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}

__device__ __forceinline__ float warp_max(float x) {
    for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
    return x;
}

// The sum over a block of up to 1024 threads, in every thread.
template <class T>
__device__ __forceinline__ T block_sum(T value) {
    __shared__ T part[32];
    value = warp_sum(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = value;
    __syncthreads();
    T total = 0;
    for (int warp = 0; warp < blockDim.x / 32; warp++) total += part[warp];
    return total;
}

// Operands of the tensor cores' products: fragments of tiles in shared memory, or of accumulators.
//
// Compiled for one head dimension (HEAD, padded with zeros to WIDTH, a multiple of 16) and one arithmetic (MODE).

#if MODE == MODE_BF16
#define DEPTH 16
#define PITCH (WIDTH + 8)
#else
#define DEPTH 8
#define PITCH (WIDTH + 4)
#endif

#if MODE == MODE_BF16
struct Left { u32 r[4]; };
struct Right { u32 r[2]; };

__device__ __forceinline__ Left load_left(const Element *tile, int row, int k) {
    int lane = threadIdx.x % 32;
    u32 at = shared_address(tile + (row + lane % 16) * PITCH + k + lane / 16 * 8);
    Left a;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(a.r[0]), "=r"(a.r[1]), "=r"(a.r[2]), "=r"(a.r[3]) : "r"(at));
    return a;
}

// B(k, n) = tile[n][k], for columns n.. and n + 8..
__device__ __forceinline__ void load_rows(Right b[2], const Element *tile, int n, int k) {
    int lane = threadIdx.x % 32;
    u32 at = shared_address(tile + (n + lane / 16 * 8 + lane % 8) * PITCH + k + lane / 8 % 2 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(b[0].r[0]), "=r"(b[0].r[1]), "=r"(b[1].r[0]), "=r"(b[1].r[1]) : "r"(at));
}

// B(k, n) = tile[k][n], for columns n.. and n + 8..
__device__ __forceinline__ void load_columns(Right b[2], const Element *tile, int k, int n) {
    int lane = threadIdx.x % 32;
    u32 at = shared_address(tile + (k + lane % 16) * PITCH + n + lane / 16 * 8);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(b[0].r[0]), "=r"(b[0].r[1]), "=r"(b[1].r[0]), "=r"(b[1].r[1]) : "r"(at));
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
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a.r[0]), "r"(a.r[1]), "r"(a.r[2]), "r"(a.r[3]), "r"(b.r[0]), "r"(b.r[1]));
}
#else
__device__ __forceinline__ u32 tf32(float x) {
    u32 out;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(out) : "f"(x));
    return out;
}

// N numbers in tf32, in MODE_F32 each as the sum of two.
template <int N>
struct Parts {
    u32 high[N];
#if MODE == MODE_F32
    u32 low[N];
#endif
    __device__ __forceinline__ void set(int i, float x) {
        high[i] = tf32(x);
#if MODE == MODE_F32
        low[i] = tf32(x - __uint_as_float(high[i]));
#endif
    }
};
typedef Parts<4> Left;
typedef Parts<2> Right;

#define GROUP (threadIdx.x % 32 / 4)
#define MEMBER (threadIdx.x % 4)

// Four matrices of 8 rows by 4 numbers; every lane names a row.
__device__ __forceinline__ Pack<float, 4> load_matrices(const Element *row) {
    Pack<float, 4> x;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=f"(x.v[0]), "=f"(x.v[1]), "=f"(x.v[2]), "=f"(x.v[3]) : "r"(shared_address(row)));
    return x;
}

__device__ __forceinline__ Left load_left(const Element *tile, int row, int k) {
    int lane = threadIdx.x % 32;
    Pack<float, 4> x = load_matrices(tile + (row + lane % 16) * PITCH + k + lane / 16 * 4);
    Left a;
#pragma unroll
    for (int i = 0; i < 4; i++) a.set(i, x.v[i]);
    return a;
}

__device__ __forceinline__ void load_rows(Right b[2], const Element *tile, int n, int k) {
    int lane = threadIdx.x % 32;
    Pack<float, 4> x = load_matrices(tile + (n + lane / 16 * 8 + lane % 8) * PITCH + k + lane / 8 % 2 * 4);
#pragma unroll
    for (int i = 0; i < 4; i++) b[i / 2].set(i % 2, x.v[i]);
}

__device__ __forceinline__ void load_columns(Right b[2], const Element *tile, int k, int n) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float *at = tile + (k + 2 * MEMBER) * PITCH + n + i * 8 + GROUP;
        b[i].set(0, at[0]);
        b[i].set(1, at[PITCH]);
    }
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
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void multiply(float c[4], const Left &a, const Right &b) {
#if MODE == MODE_F32
    multiply_tf32(c, a.low, b.high);
    multiply_tf32(c, a.high, b.low);
#endif
    multiply_tf32(c, a.high, b.high);
}
#endif


// Moving elements, and sums along axes. The host defines COLUMNS and LANES, the threads of a block that sums columns.

// The sum over the LANES rows of threads of a block, for each of its COLUMNS columns.
__device__ __forceinline__ float block_column_sum(float value) {
    __shared__ float part[LANES][COLUMNS + 1];
    part[threadIdx.y][threadIdx.x] = value;
    __syncthreads();
    float total = 0.0f;
    if (threadIdx.y == 0)
        for (int lane = 0; lane < LANES; lane++) total += part[lane][threadIdx.x];
    __syncthreads();
    return total;
}

// [outer, mid, inner] -> [outer, chunks, inner]: block (x, y, z) sums `chunk` of the middle.
template <class T>
__device__ void sum_columns(const T *x, float *out, int mid, int inner, int chunk) {
    int column = blockIdx.x * COLUMNS + threadIdx.x, first = blockIdx.y * chunk;
    int last = min(first + chunk, mid);
    float sum = 0.0f;
    if (column < inner)
        for (int row = first + threadIdx.y; row < last; row += LANES)
            sum += widen(x[((i64)blockIdx.z * mid + row) * inner + column]);
    sum = block_column_sum(sum);
    if (threadIdx.y == 0 && column < inner) out[((i64)blockIdx.z * gridDim.y + blockIdx.y) * inner + column] = sum;
}
extern "C" __global__ void sum_columns_f32(const float *x, float *out, int mid, int inner, int chunk) {
    after_earlier_work();
    sum_columns(x, out, mid, inner, chunk);
}
extern "C" __global__ void sum_columns_bf16(const bf16 *x, float *out, int mid, int inner, int chunk) {
    after_earlier_work();
    sum_columns(x, out, mid, inner, chunk);
}

// [rows, d] -> [rows], one block each.
template <class T>
__device__ void sum_rows(const T *x, float *out, i64 d) {
    float sum = 0.0f;
    const T *row = x + blockIdx.x * d;
#pragma unroll 8
    for (i64 i = threadIdx.x; i < d; i += blockDim.x) sum += widen(row[i]);
    sum = block_sum(sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}
extern "C" __global__ void sum_rows_f32(const float *x, float *out, i64 d) {
    after_earlier_work();
    sum_rows(x, out, d);
}
extern "C" __global__ void sum_rows_bf16(const bf16 *x, float *out, i64 d) {
    after_earlier_work();
    sum_rows(x, out, d);
}

// Per chunk of rows: [chunks, 2, d] with Σ dy x̂ and Σ dy.
template <class T, class G>
__device__ void layer_norm_affine(const T *x, const float *stats, const G *grad, float *out, int rows, int d,
                                  int chunk) {
    int column = blockIdx.x * COLUMNS + threadIdx.x, first = blockIdx.y * chunk;
    int last = min(first + chunk, rows);
    float gamma = 0.0f, beta = 0.0f;
    if (column < d)
        for (int row = first + threadIdx.y; row < last; row += LANES) {
            i64 at = (i64)row * d + column;
            float dy = widen(grad[at]);
            gamma += dy * (widen(x[at]) - stats[2 * row]) * stats[2 * row + 1];
            beta += dy;
        }
    gamma = block_column_sum(gamma);
    beta = block_column_sum(beta);
    if (threadIdx.y == 0 && column < d) {
        out[(i64)blockIdx.y * 2 * d + column] = gamma;
        out[((i64)blockIdx.y * 2 + 1) * d + column] = beta;
    }
}
#define AFFINE(name, T, G)                                                                                      \
    extern "C" __global__ void layer_norm_affine_##name(const T *x, const float *stats, const G *grad,          \
                                                        float *out, int rows, int d, int chunk) {               \
        after_earlier_work();                                                                                   \
        layer_norm_affine(x, stats, grad, out, rows, d, chunk);                                                 \
    }
AFFINE(f32_f32, float, float)
AFFINE(bf16_f32, bf16, float)
AFFINE(bf16_bf16, bf16, bf16)

struct Axes {
    int rank, size[8], stride[8];
};

// One number, or neighbours that stay neighbours.
typedef Pack<float, 1> One;
typedef Pack<float, PACK> Four;

// `axes` are those of the output, with the strides of the input.
template <class T>
__device__ void permute(Axes axes, const T *x, T *out, i64 n) {
    FOR_ELEMENTS(i, n) {
        u32 rest = i, at = 0;
        for (int axis = axes.rank - 1; axis >= 0; axis--) {
            at += rest % (u32)axes.size[axis] * axes.stride[axis];
            rest /= (u32)axes.size[axis];
        }
        out[i] = x[at];
    }
}
extern "C" __global__ void permute_packs(Axes axes, const Four *x, Four *out, i64 n) {
    after_earlier_work();
    permute(axes, x, out, n);
}
extern "C" __global__ void permute_single(Axes axes, const One *x, One *out, i64 n) {
    after_earlier_work();
    permute(axes, x, out, n);
}

// [rows, columns] -> [columns, rows], by tiles of COLUMNS x COLUMNS.
extern "C" __global__ void turn(const float *x, float *out, int rows, int columns) {
    after_earlier_work();
    __shared__ float tile[COLUMNS][COLUMNS + 1];
    int column = blockIdx.x * COLUMNS + threadIdx.x, row = blockIdx.y * COLUMNS + threadIdx.x;
    for (int y = threadIdx.y; y < COLUMNS; y += LANES) {
        int from = blockIdx.y * COLUMNS + y;
        if (from < rows && column < columns) tile[y][threadIdx.x] = x[(i64)from * columns + column];
    }
    __syncthreads();
    for (int y = threadIdx.y; y < COLUMNS; y += LANES) {
        int to = blockIdx.x * COLUMNS + y;
        if (to < columns && row < rows) out[(i64)to * rows + row] = tile[threadIdx.x][y];
    }
}

// Rows of `width` from one table to another: row r goes from `from + r * from_row` to `to + r * to_row`. N neighbours are
// copied at once.
template <class T, class O, int N>
__device__ void copy_rows(const T *x, i64 from, i64 from_row, O *out, i64 to, i64 to_row, i64 width, i64 n) {
    FOR_ELEMENTS(i, n / N) {
        u32 packs = width / N;
        i64 row = (u32)i / packs, column = (u32)i % packs * N;
        Pack<T, N> a = *(const Pack<T, N> *)(x + from + row * from_row + column);
        Pack<O, N> b;
        for (int j = 0; j < N; j++) b.v[j] = narrow<O>(widen(a.v[j]));
        *(Pack<O, N> *)(out + to + row * to_row + column) = b;
    }
}
#define COPY(name, T, O, N)                                                                                    \
    extern "C" __global__ void copy_rows_##name(const T *x, i64 from, i64 from_row, O *out, i64 to,            \
                                                i64 to_row, i64 width, i64 n) {                                \
        after_earlier_work();                                                                                  \
        copy_rows<T, O, N>(x, from, from_row, out, to, to_row, width, n);                                      \
    }
COPY(packs_f32_f32, float, float, PACK)
COPY(packs_f32_bf16, float, bf16, PACK)
COPY(packs_bf16_f32, bf16, float, PACK)
COPY(packs_bf16_bf16, bf16, bf16, PACK)
COPY(single_f32_f32, float, float, 1)
COPY(single_f32_bf16, float, bf16, 1)
COPY(single_bf16_f32, bf16, float, 1)
COPY(single_bf16_bf16, bf16, bf16, 1)

extern "C" __global__ void gather(const float *x, const float *index, float *out, int width, i64 n) {
    after_earlier_work();
    FOR_ELEMENTS(i, n) out[i] = x[(i64)__float_as_int(index[i / width]) * width + i % width];
}

// Output row r sums the rows whose index is r, in order: the same bits every time.
extern "C" __global__ void scatter_add(const float *x, const float *index, float *out, int rows, int width, i64 n) {
    after_earlier_work();
    FOR_ELEMENTS(i, n) {
        int target = i / width;
        float sum = 0.0f;
        for (int row = 0; row < rows; row++)
            if (__float_as_int(index[row]) == target) sum += x[(i64)row * width + i % width];
        out[i] = sum;
    }
}

// A row of the table, for each `blockIdx.y`: address to copy from, address to copy to, and number of words.
extern "C" __global__ void copy_all(const u64 *table) {
    after_earlier_work();
    const u64 *row = table + 3 * blockIdx.y;
    const u32 *from = (const u32 *)row[0];
    u32 *to = (u32 *)row[1];
    for (u64 i = (u64)blockIdx.x * blockDim.x + threadIdx.x; i < row[2]; i += (u64)gridDim.x * blockDim.x)
        to[i] = from[i];
}

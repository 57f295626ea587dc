//! NVIDIA GPUs: our kernels, compiled at run time, and cuBLASLt for matrix products.
//!
//! Elements are `f32`, except behind [`Backend::compact`] in bf16 precision: from there on an operation's result is
//! stored as its first input is, while sums, statistics, losses and everything that belongs to a parameter stay `f32`.
//! Operations that are never on that path read a widened copy.

mod arena;
mod attention;
mod buffer;
mod compile;
mod convolve;
mod driver;
mod gemm;
mod matmul;
mod rows;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use self::arena::Arena;
use self::buffer::Kind;
use self::compile::Source;
use self::driver::{Arg, Gpu, Grid, Kernels};
use self::matmul::Products;
use super::{
    Attention, AttentionGrad, Backend, BackendEntry, Binary, Conv, DeviceInfo, Epilogue, Gemm,
    Matrix, Memory, Precision, Storage, Unary, Update, Window,
};
use crate::shape::elem_count;
use crate::{Error, Result};

pub(crate) use self::buffer::Buffer;

pub(crate) const ENTRY: BackendEntry = BackendEntry {
    name: "cuda",
    what: "an NVIDIA GPU, by number: cuda:0",
    open: |name, precision| open(name, precision).map(|cuda| cuda as Arc<dyn Backend>),
    devices,
};

/// Threads of a block of the elementwise kernels.
const THREADS: usize = 256;
/// Most axes an elementwise kernel walks over.
const RANK: usize = 8;

struct Cuda {
    ordinal: i32,
    precision: Precision,
    gpu: Arc<Gpu>,
    arena: Arc<Arena>,
    kernels: Kernels,
    products: Products,
    workspace: Buffer,
    cache: Option<PathBuf>,
    attention: Mutex<HashMap<(usize, Kind), Arc<Kernels>>>,
}

/// One backend for each GPU and precision, for as long as the process lives.
fn open(name: &str, precision: Precision) -> Result<Arc<Cuda>> {
    type Opened = HashMap<(i32, Precision), Arc<Cuda>>;
    static OPENED: OnceLock<Mutex<Opened>> = OnceLock::new();
    let wrong = |why: String| Error::Device { name: name.to_owned(), why };
    let number = name.strip_prefix("cuda").and_then(|rest| match rest {
        "" => Some(0),
        _ => rest.strip_prefix(':')?.parse::<i32>().ok(),
    });
    let ordinal = number.ok_or_else(|| wrong("a GPU is named cuda:0, cuda:1, ...".to_owned()))?;
    let found = driver::devices().map_err(wrong)?;
    if ordinal < 0 || ordinal as usize >= found.len() {
        return Err(wrong(format!("this machine has {} GPU(s)", found.len())));
    }
    let mut opened =
        OPENED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(cuda) = opened.get(&(ordinal, precision)) {
        return Ok(Arc::clone(cuda));
    }
    let cuda = Arc::new(Cuda::new(ordinal, precision)?);
    opened.insert((ordinal, precision), Arc::clone(&cuda));
    Ok(cuda)
}

fn devices() -> Vec<DeviceInfo> {
    match driver::devices() {
        Ok(found) => found
            .iter()
            .enumerate()
            .map(|(i, gpu)| DeviceInfo {
                name: format!("cuda:{i}"),
                what: format!(
                    "{}, {:.0} GiB, compute capability {}.{}",
                    gpu.name,
                    gpu.total_memory as f64 / f64::from(1 << 30),
                    gpu.capability.0,
                    gpu.capability.1
                ),
            })
            .collect(),
        Err(why) => {
            vec![DeviceInfo { name: "cuda".to_owned(), what: format!("not usable: {why}") }]
        }
    }
}

/// The name of a kernel and the module it is in: `extern "C"` names are unique over all files.
fn kernel_names(text: &str, expanded: &[&str]) -> Vec<String> {
    let mut names: Vec<String> = text
        .split("extern \"C\" __global__ void ")
        .skip(1)
        .filter_map(|rest| rest.split('(').next())
        .filter(|name| !name.contains('#'))
        .map(str::to_owned)
        .collect();
    names.extend(expanded.iter().map(|&name| name.to_owned()));
    names
}

/// A buffer that is known to be on a GPU.
fn on_gpu(x: &Storage) -> &Buffer {
    match x {
        Storage::Cuda(buffer) => buffer,
        Storage::Cpu(_) => unreachable!("operations check that their inputs share a device"),
    }
}

impl Cuda {
    fn new(ordinal: i32, precision: Precision) -> Result<Self> {
        let gpu = Arc::new(Gpu::open(ordinal)?);
        let cache = compile::cache_folder();
        let sources = [
            ("elementwise", include_str!("kernels/elementwise.cu"), ELEMENTWISE),
            ("rowwise", include_str!("kernels/rowwise.cu"), rows::ROWWISE),
            ("layout", include_str!("kernels/layout.cu"), LAYOUT),
            ("planes", include_str!("kernels/planes.cu"), &[]),
        ];
        let mut kernels = Kernels::default();
        let images = std::thread::scope(|scope| {
            let tasks = sources.map(|(name, text, _)| {
                let (gpu, cache) = (&gpu, cache.as_deref());
                scope.spawn(move || {
                    let source = Source { name, text, defines: Vec::new() };
                    (source.image(gpu.properties.capability, cache), source)
                })
            });
            tasks.map(|task| task.join().expect("compiling does not panic"))
        });
        for ((image, source), (_, text, expanded)) in images.into_iter().zip(sources) {
            let names = kernel_names(text, expanded);
            kernels.extend(load(&gpu, &source, &image?, &names, 0, cache.as_deref())?);
        }
        let arena = Arena::new(Arc::clone(&gpu));
        let workspace =
            Buffer::new(arena.take(matmul::WORKSPACE)?, matmul::WORKSPACE / 4, Kind::F32);
        let attention = Mutex::default();
        let products = Products::new()?;
        Ok(Self { ordinal, precision, gpu, arena, kernels, products, workspace, cache, attention })
    }

    fn take(&self, len: usize, kind: Kind) -> Result<Buffer> {
        Ok(Buffer::new(self.arena.take(len * kind.bytes())?, len, kind))
    }

    fn take_f32(&self, len: usize) -> Result<Buffer> {
        self.take(len, Kind::F32)
    }

    /// The elements as `f32`.
    fn widened(&self, x: &Storage) -> Result<Buffer> {
        self.cast(on_gpu(x), Kind::F32)
    }

    /// The elements as `kind`; the bf16 form of an `f32` block is made once.
    fn cast(&self, x: &Buffer, kind: Kind) -> Result<Buffer> {
        match (x.kind, kind) {
            (Kind::F32, Kind::Bf16) => {
                let (whole, start) = x.whole();
                let half = if let Some(half) = x.block.half.get() {
                    half.clone()
                } else {
                    let half = self.converted(&whole, kind)?;
                    x.block.half.get_or_init(|| half).clone()
                };
                Ok(half.part(start, x.len()))
            }
            (Kind::Bf16, Kind::F32) => self.converted(x, kind),
            _ => Ok(x.clone()),
        }
    }

    /// The same elements at an address that packs of 4 can be read from: parts may begin anywhere.
    fn aligned(&self, x: &Buffer) -> Result<Buffer> {
        if x.address().is_multiple_of(16) {
            return Ok(x.clone());
        }
        let out = self.take(x.len(), x.kind)?;
        self.copy_rows((x, 0, x.len()), (&out, 0, x.len()), [1, x.len()])?;
        Ok(out)
    }

    /// The elements as bf16, without keeping the copy beside the original.
    fn narrowed(&self, x: &Buffer) -> Result<Buffer> {
        if x.kind == Kind::Bf16 { Ok(x.clone()) } else { self.converted(x, Kind::Bf16) }
    }

    fn converted(&self, x: &Buffer, kind: Kind) -> Result<Buffer> {
        let (x, out) = (&self.aligned(x)?, self.take(x.len(), kind)?);
        let name = format!("cast_{}_{}", x.kind.name(), kind.name());
        let args = [Arg::Address(x.address()), Arg::Address(out.address())];
        self.each(&name, x.len().div_ceil(4), &args, x.len())?;
        Ok(out)
    }

    /// Queues a kernel over `work` threads' worth of elements; its last parameter is `n`.
    fn each(&self, name: &str, work: usize, args: &[Arg], n: usize) -> Result<()> {
        if n == 0 {
            return Ok(());
        }
        if n > u32::MAX as usize {
            let why = format!("{n} elements, the kernels count to 2^32");
            return Err(Error::Gpu { what: name.to_owned(), why });
        }
        let most = self.gpu.properties.multiprocessors as usize * 16;
        let blocks = work.div_ceil(THREADS).clamp(1, most);
        let args = [args, &[Arg::I64(n as i64)]].concat();
        let grid = Grid::new([blocks, 1, 1], [THREADS as u32, 1]);
        self.gpu.launch(&self.kernels, name, grid, &args)
    }

    fn launch(&self, name: &str, grid: Grid, args: &[Arg]) -> Result<()> {
        self.gpu.launch(&self.kernels, name, grid, args)
    }

    /// Queues a kernel from buffers to one new buffer of `f32`, all elements alike.
    fn map(&self, name: &str, before: &[Arg], inputs: &[&Buffer], len: usize) -> Result<Storage> {
        let out = self.take_f32(len)?;
        let buffers = inputs.iter().copied().chain([&out]);
        let args: Vec<Arg> =
            before.iter().copied().chain(buffers.map(|x| Arg::Address(x.address()))).collect();
        self.each(name, len, &args, len)?;
        Ok(Storage::Cuda(out))
    }

    /// Indices as the bits of `f32`.
    fn indices(&self, indices: &[usize]) -> Result<Buffer> {
        let bits: Vec<f32> = indices.iter().map(|&i| f32::from_bits(i as u32)).collect();
        self.uploaded(&bits)
    }

    fn uploaded(&self, data: &[f32]) -> Result<Buffer> {
        let out = self.take_f32(data.len())?;
        if !data.is_empty() {
            self.gpu.copy_in(out.address(), data)?;
        }
        Ok(out)
    }

    /// Sums over the middle of `[outer, mid, inner]`: in one pass, or by chunks of rows and then over the chunks.
    fn sums(&self, x: &Buffer, [outer, mid, inner]: [usize; 3]) -> Result<Buffer> {
        const CHUNK: usize = 256;
        if inner == 1 {
            let out = self.take_f32(outer)?;
            if outer > 0 {
                let name = format!("sum_rows_{}", x.kind.name());
                let args =
                    [Arg::Address(x.address()), Arg::Address(out.address()), Arg::I64(mid as i64)];
                self.launch(&name, Grid::new([outer, 1, 1], [THREADS as u32, 1]), &args)?;
            }
            return Ok(out);
        }
        let chunks = mid.div_ceil(CHUNK).max(1);
        let out = self.take_f32(outer * chunks * inner)?;
        if out.len() > 0 {
            let name = format!("sum_columns_{}", x.kind.name());
            let grid = Grid::new([inner.div_ceil(COLUMNS), chunks, outer], [COLUMNS as u32, LANES]);
            let args = [
                Arg::Address(x.address()),
                Arg::Address(out.address()),
                Arg::I32(mid as i32),
                Arg::I32(inner as i32),
                Arg::I32(CHUNK as i32),
            ];
            self.launch(&name, grid, &args)?;
        }
        if chunks == 1 { Ok(out) } else { self.sums(&out, [outer, chunks, inner]) }
    }

    /// Copies `rows` rows of `width` elements from `x` to `out`: each is `(buffer, first element, elements a row)`.
    fn copy_rows(
        &self,
        (x, from, from_row): (&Buffer, usize, usize),
        (out, to, to_row): (&Buffer, usize, usize),
        [rows, width]: [usize; 2],
    ) -> Result<()> {
        let name = format!("copy_rows_{}_{}", x.kind.name(), out.kind.name());
        let args = [
            Arg::Address(x.address()),
            Arg::I64(from as i64),
            Arg::I64(from_row as i64),
            Arg::Address(out.address()),
            Arg::I64(to as i64),
            Arg::I64(to_row as i64),
            Arg::I64(width as i64),
        ];
        self.each(&name, rows * width, &args, rows * width)
    }
}

/// Loads a module; an image that the driver refuses (a damaged cache) is compiled anew.
fn load(
    gpu: &Gpu,
    source: &Source,
    image: &[u8],
    names: &[String],
    shared: u32,
    cache: Option<&std::path::Path>,
) -> Result<Kernels> {
    gpu.load(image, names, shared).or_else(|_| {
        gpu.load(&source.fresh_image(gpu.properties.capability, cache)?, names, shared)
    })
}

/// Columns and rows of threads of the kernels that sum columns, as in `layout.cu`.
const COLUMNS: usize = 32;
const LANES: u32 = 16;

/// Kernels whose names come out of macros.
const ELEMENTWISE: &[&str] = &[
    "binary_f32_f32",
    "binary_f32_bf16",
    "binary_bf16_f32",
    "binary_bf16_bf16",
    "cast_f32_bf16",
    "cast_bf16_f32",
    "gelu_f32",
    "gelu_bf16",
    "gelu_backward_f32",
    "gelu_backward_bf16",
];
const LAYOUT: &[&str] = &[
    "layer_norm_affine_f32_f32",
    "layer_norm_affine_bf16_f32",
    "layer_norm_affine_bf16_bf16",
    "copy_rows_f32_f32",
    "copy_rows_f32_bf16",
    "copy_rows_bf16_bf16",
];

fn strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for axis in (0..shape.len().saturating_sub(1)).rev() {
        strides[axis] = strides[axis + 1] * shape[axis + 1];
    }
    strides
}

/// Axes as the kernels take them: the rank, the sizes, and each list of strides in `RANK` places. Neighbouring axes that
/// lie behind one another in every list are walked as one.
fn axes<const N: usize>(
    what: &'static str,
    shape: &[usize],
    strides: [&[usize]; N],
) -> Result<Arg> {
    let mut joined: Vec<(usize, [usize; N])> = Vec::with_capacity(shape.len());
    for (axis, &size) in shape.iter().enumerate() {
        let steps = strides.map(|list| list[axis]);
        match joined.last_mut() {
            Some((length, outer)) if (0..N).all(|i| outer[i] == steps[i] * size) => {
                (*length, *outer) = (*length * size, steps);
            }
            _ => joined.push((size, steps)),
        }
    }
    if joined.len() > RANK || elem_count(shape) > u32::MAX as usize {
        return Err(Error::Shape {
            what,
            expected: format!("at most {RANK} axes and 2^32 elements on a GPU"),
            got: shape.to_vec(),
        });
    }
    let mut words = [0; 1 + 3 * RANK];
    words[0] = joined.len();
    for (axis, (size, steps)) in joined.iter().enumerate() {
        words[1 + axis] = *size;
        for (list, step) in steps.iter().enumerate() {
            words[1 + (1 + list) * RANK + axis] = *step;
        }
    }
    Ok(Arg::words(words))
}

fn window_arg(window: &Window) -> Arg {
    let Window { input, side, stride, padding, output } = *window;
    Arg::words([input[0], input[1], side, stride, padding, output[0], output[1]])
}

impl Backend for Cuda {
    fn name(&self) -> String {
        let precision = match self.precision {
            Precision::F32 => String::new(),
            other => format!(" ({other})"),
        };
        format!("cuda:{}{precision}", self.ordinal)
    }

    fn peak_gflops(&self) -> Result<f64> {
        const SIDE: usize = 8192;
        let numbers = (0..SIDE * SIDE).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8);
        let x = self.compact(&self.upload(numbers.map(|x| f32::from(x) - 127.5).collect())?)?;
        let matrix = Matrix::row_major(&x, SIDE);
        let (epilogue, full) = (Epilogue::None, false);
        let gemm =
            Gemm { batches: 1, m: SIDE, n: SIDE, k: SIDE, a: matrix, b: matrix, epilogue, full };
        let mut best = f64::INFINITY;
        for _ in 0..6 {
            let start = Instant::now();
            self.product(&gemm)?;
            self.synchronize()?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok(2.0 * (SIDE as f64).powi(3) / best / 1e9)
    }

    fn upload(&self, data: Vec<f32>) -> Result<Storage> {
        Ok(Storage::Cuda(self.uploaded(&data)?))
    }

    fn download(&self, x: &Storage) -> Result<Vec<f32>> {
        let x = self.widened(x)?;
        let mut data = vec![0.0; x.len()];
        if !data.is_empty() {
            self.gpu.copy_out(x.address(), &mut data)?;
        }
        Ok(data)
    }

    fn fill(&self, len: usize, value: f32) -> Result<Storage> {
        let out = self.take_f32(len)?;
        self.each("fill_f32", len, &[Arg::Address(out.address()), Arg::F32(value)], len)?;
        Ok(Storage::Cuda(out))
    }

    fn synchronize(&self) -> Result<()> {
        self.gpu.synchronize()
    }

    fn memory(&self) -> Option<Memory> {
        let usage = self.arena.usage();
        Some(Memory { used: usage.used, peak: usage.peak, reserved: usage.reserved })
    }

    fn compact(&self, x: &Storage) -> Result<Storage> {
        match self.precision {
            Precision::Bf16 => Ok(Storage::Cuda(self.narrowed(on_gpu(x))?)),
            Precision::F32 | Precision::Tf32 => Ok(x.clone()),
        }
    }

    fn gelu_backward(&self, grad: &Storage, saved: &Storage) -> Result<Option<Storage>> {
        self.gelu_gradient(on_gpu(grad), on_gpu(saved)).map(Some)
    }

    fn gemm(&self, gemm: &Gemm) -> Result<(Storage, Option<Storage>)> {
        self.product(gemm)
    }

    fn attention(&self, attention: &Attention) -> Result<(Storage, Storage)> {
        self.attention_forward(attention)
    }

    fn attention_backward(
        &self,
        attention: &Attention,
        saved: &AttentionGrad,
    ) -> Result<(Storage, Storage)> {
        self.attention_gradients(attention, saved)
    }

    fn attention_backward_packed(
        &self,
        attention: &Attention,
        saved: &AttentionGrad,
    ) -> Result<Storage> {
        self.attention_gradients_packed(attention, saved)
    }

    fn layer_norm(
        &self,
        x: &Storage,
        gamma: &Storage,
        beta: &Storage,
        eps: f32,
    ) -> Result<(Storage, Storage)> {
        self.layer_norm_forward(on_gpu(x), on_gpu(gamma), on_gpu(beta), eps)
    }

    fn layer_norm_backward(
        &self,
        x: &Storage,
        stats: &Storage,
        gamma: &Storage,
        grad: &Storage,
    ) -> Result<Storage> {
        self.layer_norm_gradient(on_gpu(x), on_gpu(stats), on_gpu(gamma), on_gpu(grad))
    }

    fn layer_norm_affine_backward(
        &self,
        x: &Storage,
        stats: &Storage,
        grad: &Storage,
        d: usize,
    ) -> Result<(Storage, Storage)> {
        self.layer_norm_affine_gradient(on_gpu(x), on_gpu(stats), on_gpu(grad), d)
    }

    fn conv2d(&self, conv: &Conv, x: &Storage, weight: &Storage) -> Result<Storage> {
        self.convolve(conv, &self.widened(x)?, &self.widened(weight)?)
    }

    fn conv2d_backward_input(
        &self,
        conv: &Conv,
        weight: &Storage,
        grad: &Storage,
    ) -> Result<Storage> {
        self.convolve_backward_input(conv, &self.widened(weight)?, &self.widened(grad)?)
    }

    fn conv2d_backward_weight(&self, conv: &Conv, x: &Storage, grad: &Storage) -> Result<Storage> {
        self.convolve_backward_weight(conv, &self.widened(x)?, &self.widened(grad)?)
    }

    fn channel_moments(&self, x: &Storage, split: [usize; 3]) -> Result<(Storage, Storage)> {
        let (x, mean, variance) =
            (self.widened(x)?, self.take_f32(split[1])?, self.take_f32(split[1])?);
        let args = [&x, &mean, &variance].map(|x| Arg::Address(x.address()));
        self.per_channel("channel_moments", &args, split)?;
        Ok((Storage::Cuda(mean), Storage::Cuda(variance)))
    }

    fn channel_affine(
        &self,
        x: &Storage,
        scale: &Storage,
        shift: &Storage,
        split: [usize; 3],
    ) -> Result<Storage> {
        let inputs = [self.widened(x)?, self.widened(scale)?, self.widened(shift)?];
        self.channel_map("channel_affine", &inputs.each_ref(), split)
    }

    fn channel_gradient_sums(
        &self,
        x: &Storage,
        grad: &Storage,
        centre: &Storage,
        split: [usize; 3],
    ) -> Result<(Storage, Storage)> {
        let inputs = [self.widened(x)?, self.widened(grad)?, self.widened(centre)?];
        let (plain, centred) = (self.take_f32(split[1])?, self.take_f32(split[1])?);
        let args: Vec<Arg> =
            inputs.iter().chain([&plain, &centred]).map(|x| Arg::Address(x.address())).collect();
        self.per_channel("channel_gradient_sums", &args, split)?;
        Ok((Storage::Cuda(plain), Storage::Cuda(centred)))
    }

    fn channel_combine(
        &self,
        x: &Storage,
        grad: &Storage,
        [a, b, c]: [&Storage; 3],
        split: [usize; 3],
    ) -> Result<Storage> {
        let inputs = [x, grad, a, b, c].map(|x| self.widened(x));
        let [x, grad, a, b, c] = inputs;
        self.channel_map("channel_combine", &[&x?, &grad?, &a?, &b?, &c?], split)
    }

    fn max_pool(&self, window: &Window, x: &Storage) -> Result<(Storage, Storage)> {
        let x = self.widened(x)?;
        let len = x.len() / window.input_len() * window.output_len();
        let (out, place) = (self.take_f32(len)?, self.take_f32(len)?);
        let [x, to, at] = [&x, &out, &place].map(|x| Arg::Address(x.address()));
        self.each("max_pool", len, &[window_arg(window), x, to, at], len)?;
        Ok((Storage::Cuda(out), Storage::Cuda(place)))
    }

    fn max_pool_backward(
        &self,
        window: &Window,
        place: &Storage,
        grad: &Storage,
    ) -> Result<Storage> {
        let (place, grad) = (self.widened(place)?, self.widened(grad)?);
        let len = grad.len() / window.output_len() * window.input_len();
        self.map("max_pool_backward", &[window_arg(window)], &[&place, &grad], len)
    }

    fn avg_pool(&self, window: &Window, x: &Storage) -> Result<Storage> {
        let x = self.widened(x)?;
        let len = x.len() / window.input_len() * window.output_len();
        self.map("avg_pool", &[window_arg(window)], &[&x], len)
    }

    fn avg_pool_backward(&self, window: &Window, grad: &Storage) -> Result<Storage> {
        let grad = self.widened(grad)?;
        let len = grad.len() / window.output_len() * window.input_len();
        self.map("avg_pool_backward", &[window_arg(window)], &[&grad], len)
    }

    fn softmax(&self, x: &Storage, d: usize) -> Result<Storage> {
        self.by_row("softmax", &[&self.widened(x)?], d)
    }

    fn softmax_backward(&self, y: &Storage, grad: &Storage, d: usize) -> Result<Storage> {
        self.by_row("softmax_backward", &[&self.widened(y)?, &self.widened(grad)?], d)
    }

    fn log_softmax(&self, x: &Storage, d: usize) -> Result<Storage> {
        self.by_row("log_softmax", &[&self.widened(x)?], d)
    }

    fn log_softmax_backward(&self, y: &Storage, grad: &Storage, d: usize) -> Result<Storage> {
        self.by_row("log_softmax_backward", &[&self.widened(y)?, &self.widened(grad)?], d)
    }

    fn l2_normalize(&self, x: &Storage, d: usize) -> Result<(Storage, Storage)> {
        self.l2_normalize_forward(&self.widened(x)?, d)
    }

    fn l2_normalize_backward(
        &self,
        y: &Storage,
        factor: &Storage,
        grad: &Storage,
        d: usize,
    ) -> Result<Storage> {
        let inputs = [&self.widened(y)?, on_gpu(factor), &self.widened(grad)?];
        self.by_row("l2_normalize_backward", &inputs, d)
    }

    fn unary(&self, op: Unary, x: &Storage) -> Result<Storage> {
        let (code, argument) = match op {
            Unary::Exp => (0, 0.0),
            Unary::Log => (1, 0.0),
            Unary::Sqrt => (2, 0.0),
            Unary::Relu => (3, 0.0),
            Unary::Step => (4, 0.0),
            Unary::Gelu => (5, 0.0),
            Unary::GeluSlope => (6, 0.0),
            Unary::Scale(by) => (7, by),
            Unary::AddScalar(term) => (8, term),
        };
        let x = self.widened(x)?;
        self.map("unary_f32", &[Arg::I32(code), Arg::F32(argument)], &[&x], x.len())
    }

    fn binary(&self, op: Binary, a: &Storage, b: &Storage) -> Result<Storage> {
        let (a, b) = (on_gpu(a), on_gpu(b));
        let out = self.take(a.len(), a.kind)?;
        self.zip(op, a, b, &out)?;
        Ok(Storage::Cuda(out))
    }

    fn binary_broadcast(
        &self,
        op: Binary,
        shape: &[usize],
        (a, a_strides): (&Storage, &[usize]),
        (b, b_strides): (&Storage, &[usize]),
    ) -> Result<Storage> {
        let axes = axes("broadcasting", shape, [a_strides, b_strides])?;
        let (a, b) = (self.widened(a)?, self.widened(b)?);
        self.map("binary_broadcast", &[Arg::I32(op as i32), axes], &[&a, &b], elem_count(shape))
    }

    fn accumulate(&self, a: Storage, b: &Storage) -> Result<Storage> {
        let sum = on_gpu(&a);
        if sum.is_alone() && sum.address().is_multiple_of(16) {
            self.zip(Binary::Add, sum, on_gpu(b), sum)?;
            return Ok(a);
        }
        self.binary(Binary::Add, &a, b)
    }

    fn update(&self, param: &Storage, grad: &Storage, update: &Update) -> Result<Vec<Storage>> {
        self.updated(&self.widened(param)?, &self.widened(grad)?, update)
    }

    fn sum(&self, x: &Storage, split: [usize; 3]) -> Result<Storage> {
        Ok(Storage::Cuda(self.sums(on_gpu(x), split)?))
    }

    fn permute(&self, x: &Storage, shape: &[usize], order: &[usize]) -> Result<Storage> {
        let x = self.widened(x)?;
        let steps = strides(shape);
        let (sizes, steps): (Vec<_>, Vec<_>) =
            order.iter().map(|&axis| (shape[axis], steps[axis])).unzip();
        self.map("permute", &[axes("permute", &sizes, [&steps])?], &[&x], x.len())
    }

    fn concat(&self, outer: usize, parts: &[(&Storage, usize)]) -> Result<Storage> {
        let total: usize = parts.iter().map(|(_, width)| width).sum();
        let narrow = parts.iter().any(|(part, _)| on_gpu(part).kind == Kind::Bf16);
        let out = self.take(outer * total, if narrow { Kind::Bf16 } else { Kind::F32 })?;
        let mut start = 0;
        for &(part, width) in parts {
            self.copy_rows((on_gpu(part), 0, width), (&out, start, total), [outer, width])?;
            start += width;
        }
        Ok(Storage::Cuda(out))
    }

    fn slice(
        &self,
        x: &Storage,
        [outer, mid, inner]: [usize; 3],
        start: usize,
        len: usize,
    ) -> Result<Storage> {
        let (x, width) = (on_gpu(x), len * inner);
        let out = self.take(outer * width, x.kind)?;
        self.copy_rows((x, start * inner, mid * inner), (&out, 0, width), [outer, width])?;
        Ok(Storage::Cuda(out))
    }

    fn gather(&self, x: &Storage, indices: &[usize], width: usize) -> Result<Storage> {
        let (x, at, out) =
            (self.widened(x)?, self.indices(indices)?, self.take_f32(indices.len() * width)?);
        let [x, at, to] = [&x, &at, &out].map(|x| Arg::Address(x.address()));
        self.each("gather", out.len(), &[x, at, to, Arg::I32(width as i32)], out.len())?;
        Ok(Storage::Cuda(out))
    }

    fn scatter_add(
        &self,
        x: &Storage,
        indices: &[usize],
        width: usize,
        len: usize,
    ) -> Result<Storage> {
        let (x, at, out) = (self.widened(x)?, self.indices(indices)?, self.take_f32(len)?);
        let [x, at, to] = [&x, &at, &out].map(|x| Arg::Address(x.address()));
        let sizes = [Arg::I32(indices.len() as i32), Arg::I32(width as i32)];
        self.each("scatter_add", len, &[x, at, to, sizes[0], sizes[1]], len)?;
        Ok(Storage::Cuda(out))
    }
}

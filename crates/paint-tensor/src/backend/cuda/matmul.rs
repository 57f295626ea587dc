//! Matrix products by cuBLASLt.
//!
//! The library thinks in columns: our row-major `C = A B` is its `Cᵀ = Bᵀ Aᵀ`, with no data moved. The library proposes
//! algorithms for a shape and layout, best first. A small product takes the first one that runs; for a large one they
//! are timed on the operands themselves. Either way the choice is made once and kept.
#![expect(unsafe_code, reason = "every call into cuBLASLt is a foreign function")]

use std::collections::hash_map::Entry;
use std::ffi::c_void;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use cudarc::cublaslt::{result, sys};
use cudarc::driver::sys::CUstream;
use rustc_hash::FxHashMap;

use super::lt::{arrange, describe, elapsed, prefer};
use super::problem::{Activation, Addresses, Element, Problem};
use super::trial;
use crate::{Error, Result};

/// Bytes of scratch memory for the library: what NVIDIA advises for Hopper.
pub(super) const WORKSPACE: usize = 32 << 20;

/// The most algorithms that the library is asked for.
const CANDIDATES: usize = 16;
type Outcome<T> = std::result::Result<T, result::CublasError>;

/// How a product is done.
struct Plan {
    description: sys::cublasLtMatmulDesc_t,
    /// Of both operands, the residual and the result.
    layouts: [sys::cublasLtMatrixLayout_t; 4],
    algorithm: sys::cublasLtMatmulAlgo_t,
}

/// A product as the library describes it, and its algorithms, best first.
struct Proposal {
    description: sys::cublasLtMatmulDesc_t,
    layouts: [sys::cublasLtMatrixLayout_t; 4],
    algorithms: Vec<sys::cublasLtMatmulAlgo_t>,
}

impl Proposal {
    fn plan(&self, algorithm: sys::cublasLtMatmulAlgo_t) -> Plan {
        Plan { description: self.description, layouts: self.layouts, algorithm }
    }
}

/// Where a product's scratch memory is, and the stream it runs on.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) workspace: u64,
    pub(super) stream: CUstream,
}

/// The library and the plans made so far.
pub(super) struct Products {
    handle: sys::cublasLtHandle_t,
    plans: Mutex<FxHashMap<Problem, Plan>>,
}

// SAFETY: cuBLASLt handles and descriptors may be used from any thread; plans are used under the lock.
unsafe impl Send for Products {}
// SAFETY: as above.
unsafe impl Sync for Products {}

fn failed(problem: &Problem) -> impl Fn(result::CublasError) -> Error {
    move |error| Error::Gpu {
        what: format!("the matrix product {problem:?}"),
        why: format!("{error:?}"),
    }
}

impl Products {
    pub(super) fn new() -> Result<Self> {
        let handle = result::create_handle().map_err(|error| Error::Gpu {
            what: "starting cuBLASLt".to_owned(),
            why: format!("{error:?}"),
        })?;
        Ok(Self { handle, plans: Mutex::default() })
    }

    /// Whether the algorithm of a product is chosen already.
    pub(super) fn knows(&self, problem: &Problem) -> bool {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner).contains_key(problem)
    }

    /// Calls `work` while no product is being queued, in any lane. One product may be several kernels that share a
    /// lane's workspace, so nothing else that uses it may come between them.
    pub(super) fn undisturbed<T>(&self, work: impl FnOnce() -> T) -> T {
        let _plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        work()
    }

    /// Queues `out = A B (+ bias) (+ residual)`.
    pub(super) fn queue(&self, problem: &Problem, at: Addresses, place: Place) -> Result<()> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let plan = match plans.entry(*problem) {
            Entry::Occupied(plan) => plan.into_mut(),
            Entry::Vacant(free) => {
                free.insert(self.choose(problem, at, place).map_err(failed(problem))?)
            }
        };
        self.run(plan, at, place).map_err(failed(problem))
    }

    /// The plan of a product that was not done before; it has run at least once.
    fn choose(&self, problem: &Problem, at: Addresses, place: Place) -> Outcome<Plan> {
        let run = |plan: &Plan| self.run(plan, at, place);
        if !problem.is_large() {
            let best = self.propose(problem, 1)?;
            let first = trial::first_that_runs(best.algorithms.iter().map(|a| best.plan(*a)), run);
            if first.is_ok() {
                return first;
            }
            let all = self.propose(problem, CANDIDATES)?;
            return trial::first_that_runs(all.algorithms.iter().map(|a| all.plan(*a)), run);
        }
        let all = self.propose(problem, CANDIDATES)?;
        trial::fastest(all.algorithms.iter().map(|a| all.plan(*a)), |plan| {
            run(plan)?;
            // The least of three: an upload may fall into one of them.
            let times = [(); 3].map(|()| elapsed(place.stream, || run(plan)));
            let [a, b, c] = times;
            Ok(a?.min(b?).min(c?))
        })
    }

    fn run(&self, plan: &Plan, at: Addresses, place: Place) -> Outcome<()> {
        if let Some(bias) = at.bias {
            let attribute = sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_BIAS_POINTER;
            describe(plan.description, attribute, &bias)?;
        }
        if let Some(argument) = at.argument {
            let attribute =
                sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER;
            describe(plan.description, attribute, &argument)?;
        }
        if let Some(unit) = at.unit {
            let attribute =
                sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_A_SCALE_POINTER;
            describe(plan.description, attribute, &unit)?;
        }
        let (alpha, beta) = (1.0_f32, if at.residual.is_some() { 1.0_f32 } else { 0.0 });
        let pointer = |address: u64| address as *const c_void;
        let [a, b, c, d] = plan.layouts;
        // Nothing is read where nothing is added; a result in 8 bits could not even be named as what is added to it.
        let added = at.residual.or(at.unit.is_none().then_some(at.out)).unwrap_or(0);
        // SAFETY: descriptors and addresses describe the same matrices; the caller keeps their memory alive in stream
        // order. Alpha and beta are read before the call returns.
        unsafe {
            result::matmul(
                self.handle,
                plan.description,
                ptr::from_ref(&alpha).cast(),
                ptr::from_ref(&beta).cast(),
                pointer(at.b),
                b,
                pointer(at.a),
                a,
                pointer(added),
                c,
                at.out as *mut c_void,
                d,
                &raw const plan.algorithm,
                place.workspace as *mut c_void,
                WORKSPACE,
                place.stream.cast(),
            )
        }
    }

    /// The descriptors of a product and at most `wanted` algorithms for it.
    fn propose(&self, problem: &Problem, wanted: usize) -> Outcome<Proposal> {
        use sys::cublasLtMatmulDescAttributes_t as Describe;
        use sys::cublasLtMatmulPreferenceAttributes_t as Prefer;
        let Problem { m, n, k, batches, .. } = *problem;
        let compute = if problem.tf32 {
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F_FAST_TF32
        } else {
            sys::cublasComputeType_t::CUBLAS_COMPUTE_32F
        };
        let description = result::create_matmul_desc(compute, sys::cudaDataType::CUDA_R_32F)?;
        describe(
            description,
            Describe::CUBLASLT_MATMUL_DESC_TRANSA,
            &i32::from(problem.b.transposed),
        )?;
        describe(
            description,
            Describe::CUBLASLT_MATMUL_DESC_TRANSB,
            &i32::from(problem.a.transposed),
        )?;
        describe(description, Describe::CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue(problem))?;
        if matches!(problem.activation, Activation::GeluAndArgument | Activation::GeluGradient) {
            describe(description, Describe::CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &(n as i64))?;
        }
        if problem.operands == Element::E4m3 {
            // Sums are rounded to fewer bits than f32 has, to many more than the factors have.
            describe(description, Describe::CUBLASLT_MATMUL_DESC_FAST_ACCUM, &1_i8)?;
            let terms = problem.output.of_terms().data_type();
            describe(description, Describe::CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &terms)?;
        }
        let layout = |element: Element,
                      transposed: bool,
                      rows: usize,
                      columns: usize,
                      pitch: usize,
                      stride: usize| {
            let (rows, columns) = if transposed { (columns, rows) } else { (rows, columns) };
            let layout = result::create_matrix_layout(
                element.data_type(),
                rows as u64,
                columns as u64,
                pitch.max(rows) as i64,
            )?;
            if batches > 1 {
                use sys::cublasLtMatrixLayoutAttribute_t as Attribute;
                arrange(layout, Attribute::CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &(batches as i32))?;
                arrange(
                    layout,
                    Attribute::CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                    &(stride as i64),
                )?;
            }
            Ok::<_, result::CublasError>(layout)
        };
        let operands = problem.operands;
        let a = layout(operands, problem.a.transposed, k, m, problem.a.pitch, problem.a.batch)?;
        let b = layout(operands, problem.b.transposed, n, k, problem.b.pitch, problem.b.batch)?;
        let c = layout(problem.output.of_terms(), false, n, m, n, m * n)?;
        let d = layout(problem.output, false, n, m, n, m * n)?;
        let preference = result::create_matmul_pref()?;
        prefer(preference, Prefer::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &(WORKSPACE as u64))?;
        for alignment in [
            Prefer::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
            Prefer::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
            Prefer::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
            Prefer::CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        ] {
            prefer(preference, alignment, &problem.alignment)?;
        }
        // SAFETY: the structure holds plain numbers, for which zero is a value.
        let mut proposed: [sys::cublasLtMatmulHeuristicResult_t; CANDIDATES] =
            unsafe { std::mem::zeroed() };
        let mut count = 0;
        // SAFETY: all descriptors were made above; the array has room for `wanted` rows.
        let found = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.handle,
                description,
                b,
                a,
                c,
                d,
                preference,
                wanted as i32,
                proposed.as_mut_ptr(),
                &raw mut count,
            )
        };
        // SAFETY: made above, not used again.
        unsafe { result::destroy_matmul_pref(preference) }?;
        found.result()?;
        let usable = proposed.iter().take(count as usize).filter(|row| row.state.result().is_ok());
        let algorithms: Vec<_> = usable.map(|row| row.algo).collect();
        if algorithms.is_empty() {
            return Err(result::CublasError(sys::cublasStatus_t::CUBLAS_STATUS_NOT_SUPPORTED));
        }
        Ok(Proposal { description, layouts: [a, b, c, d], algorithms })
    }
}

fn epilogue(problem: &Problem) -> sys::cublasLtEpilogue_t {
    use sys::cublasLtEpilogue_t as Epilogue;
    match (problem.activation, problem.bias) {
        (Activation::None, false) => Epilogue::CUBLASLT_EPILOGUE_DEFAULT,
        (Activation::None, true) => Epilogue::CUBLASLT_EPILOGUE_BIAS,
        (Activation::Gelu, false) => Epilogue::CUBLASLT_EPILOGUE_GELU,
        (Activation::Gelu, true) => Epilogue::CUBLASLT_EPILOGUE_GELU_BIAS,
        (Activation::GeluAndArgument, false) => Epilogue::CUBLASLT_EPILOGUE_GELU_AUX,
        (Activation::GeluAndArgument, true) => Epilogue::CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        (Activation::GeluGradient, _) => Epilogue::CUBLASLT_EPILOGUE_DGELU,
    }
}

//! The CPU as a row of the table of backends, and the backends of the process.

use std::sync::{Arc, OnceLock};

use super::Cpu;
use super::kernel::Kernel;
use crate::Error;
use crate::backend::{Backend, BackendEntry, DeviceInfo, Precision};

pub(crate) const ENTRY: BackendEntry = BackendEntry {
    name: "cpu",
    what: "this machine's CPU",
    open: |name, precision| match precision {
        Precision::F32 | Precision::Tf32 => Kernel::chosen().map(|_| backend(precision)),
        Precision::Bf16 => Err(Error::Device {
            name: name.to_owned(),
            why: "the CPU computes in f32 or tf32, not in bf16".to_owned(),
        }),
    },
    devices: || {
        let threads = rayon::current_num_threads();
        let what = match Kernel::chosen() {
            Ok(kernel) => {
                format!("this machine's CPU, {threads} threads, kernel {}", kernel.name())
            }
            Err(error) => format!("not usable: {error}"),
        };
        vec![DeviceInfo { name: "cpu".to_owned(), what }]
    },
};

/// The kernel of this process: one that was named wrongly is refused where the device is opened by its name.
fn kernel() -> Kernel {
    Kernel::chosen().unwrap_or(Kernel::fastest())
}

/// The CPU backend; the process has one for `f32` and one for `tf32`.
pub(crate) fn backend(precision: Precision) -> Arc<dyn Backend> {
    static F32: OnceLock<Arc<Cpu>> = OnceLock::new();
    static TF32: OnceLock<Arc<Cpu>> = OnceLock::new();
    let (one, name) =
        if precision == Precision::Tf32 { (&TF32, "cpu in tf32") } else { (&F32, "cpu") };
    let open = || Arc::new(Cpu { kernel: kernel().with(precision), name });
    Arc::clone(one.get_or_init(open)) as Arc<dyn Backend>
}

//! The CPU as a row of the table of backends, and the backends of the process.

use std::sync::{Arc, OnceLock};

use super::Cpu;
use super::kernel::{self, Kernel};
use crate::Error;
use crate::backend::{Backend, BackendEntry, DeviceInfo, Precision};

pub(crate) const ENTRY: BackendEntry = BackendEntry {
    name: "cpu",
    what: "this machine's CPU",
    open: |name, precision| match precision {
        Precision::F32 | Precision::Tf32 => Kernel::chosen().map(|_| backend(precision)),
        Precision::Int8 => Kernel::chosen().and_then(|_| {
            let lacks = "int8 needs the instructions of AVX-512 VNNI, which this CPU lacks";
            if kernel::has_int8() { Ok(backend(precision)) } else { Err(refused(name, lacks)) }
        }),
        Precision::Bf16 | Precision::Fp8 => {
            let why = format!("the CPU computes in f32, tf32 or int8, not in {precision}");
            Err(refused(name, &why))
        }
    },
    devices: || {
        let threads = rayon::current_num_threads();
        let what = match Kernel::chosen() {
            Ok(kernel) => {
                let int8 = if kernel::has_int8() { ", int8" } else { "" };
                format!("this machine's CPU, {threads} threads, kernel {}{int8}", kernel.name())
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

fn refused(name: &str, why: &str) -> Error {
    Error::Device { name: name.to_owned(), why: why.to_owned() }
}

/// The CPU backend; the process has one for each precision that it has.
pub(crate) fn backend(precision: Precision) -> Arc<dyn Backend> {
    const COUNT: usize = Precision::ALL.len();
    static OPENED: [OnceLock<Arc<Cpu>>; COUNT] = [const { OnceLock::new() }; COUNT];
    let open = || Arc::new(Cpu { kernel: kernel().with(precision), precision });
    Arc::clone(OPENED[precision as usize].get_or_init(open)) as Arc<dyn Backend>
}

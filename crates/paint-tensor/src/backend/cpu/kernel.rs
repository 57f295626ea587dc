//! Which code multiplies matrices: the fastest that the CPU runs, or the one that `PAINT_KERNEL` names.

#[cfg(target_arch = "x86_64")]
use super::{
    amx::{self, Split},
    avx512, vnni,
};
use crate::backend::Precision;
use crate::{Error, Result};

/// The variable that names a kernel.
const VARIABLE: &str = "PAINT_KERNEL";

/// Which code multiplies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernel {
    #[cfg(target_arch = "x86_64")]
    Amx(Split),
    #[cfg(target_arch = "x86_64")]
    Avx512,
    Portable,
}

/// The name of the kernel that every CPU runs.
const PORTABLE: &str = "portable";

/// Every name, of whatever CPU.
const NAMES: [&str; 3] = [PORTABLE, "avx512", "amx"];

impl Kernel {
    /// All that this CPU runs, the fastest first.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let native = [
            #[cfg(target_arch = "x86_64")]
            amx::available().then_some(Self::Amx(Split::Three)),
            #[cfg(target_arch = "x86_64")]
            avx512::available().then_some(Self::Avx512),
            Some(Self::Portable),
        ];
        native.into_iter().flatten()
    }

    /// The fastest that this CPU runs.
    pub(super) fn fastest() -> Self {
        Self::all().next().unwrap_or(Self::Portable)
    }

    /// The one that `PAINT_KERNEL` names, or the fastest.
    pub(super) fn chosen() -> Result<Self> {
        match std::env::var_os(VARIABLE) {
            Some(name) if !name.is_empty() => Self::named(&name.to_string_lossy()),
            _ => Ok(Self::fastest()),
        }
    }

    /// The same, for a precision that the CPU has: tiles leave out what `tf32` does not need, and the other kernels are
    /// as exact as ever.
    pub(super) fn with(self, precision: Precision) -> Self {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Amx(_) if precision == Precision::Tf32 => Self::Amx(Split::Two),
            other => other,
        }
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Amx(_) => "amx",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512 => "avx512",
            Self::Portable => PORTABLE,
        }
    }

    fn named(name: &str) -> Result<Self> {
        let refuse = |why: String| Error::Device { name: "cpu".into(), why };
        if !NAMES.contains(&name) {
            let known = NAMES.join(", ");
            return Err(refuse(format!("{VARIABLE}: expected one of {known}, got {name:?}")));
        }
        Self::all().find(|kernel| kernel.name() == name).ok_or_else(|| {
            let runs: Vec<&str> = Self::all().map(Self::name).collect();
            let runs = runs.join(", ");
            refuse(format!("{VARIABLE}: this CPU lacks {name:?}; it runs {runs}"))
        })
    }
}

/// True if this CPU multiplies 8-bit integers, which is the same code whatever the kernel of other products.
pub(super) fn has_int8() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has = vnni::available();
    #[cfg(not(target_arch = "x86_64"))]
    let has = false;
    has
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_is_found_by_its_name() {
        for kernel in Kernel::all() {
            assert_eq!(Kernel::named(kernel.name()).unwrap(), kernel);
        }
    }

    #[test]
    fn an_unknown_kernel_and_one_that_the_cpu_lacks_are_told_apart() {
        let message = Kernel::named("neon").unwrap_err().to_string();
        assert!(
            message.contains("expected one of portable, avx512, amx, got \"neon\""),
            "{message}"
        );
        for lacking in NAMES.iter().filter(|name| !Kernel::all().any(|has| has.name() == **name)) {
            let message = Kernel::named(lacking).unwrap_err().to_string();
            assert!(message.contains("this CPU lacks") && message.contains(PORTABLE), "{message}");
        }
    }
}

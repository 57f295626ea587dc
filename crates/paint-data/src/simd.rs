//! Compilation of hot loops for the vector width of the CPU.

/// Declares a function that is compiled several times and runs as compiled for the widest vector unit of the
/// processor at hand. What it calls must be marked `#[inline(always)]` to be part of that. The results do not depend
/// on the width, as nothing is fused or reordered.
macro_rules! wide {
    ($(#[$meta:meta])* $vis:vis fn $name:ident<$life:lifetime>($($arg:ident: $type:ty),* $(,)?) -> $output:ty $body:block) => {
        $(#[$meta])*
        $vis fn $name<$life>($($arg: $type),*) -> $output {
            struct Work<$life> { $($arg: $type),* }
            impl<$life> pulp::WithSimd for Work<$life> {
                type Output = $output;
                #[inline(always)]
                fn with_simd<S: pulp::Simd>(self, _: S) -> $output {
                    let Self { $($arg),* } = self;
                    $body
                }
            }
            pulp::Arch::new().dispatch(Work { $($arg),* })
        }
    };
}

pub(crate) use wide;

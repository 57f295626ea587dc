//! Kernels as Rust sees them: functions on the GPU whose parameters are part of their type.
//!
//! [`kernels!`] declares the kernels of one file, each in one row: the field is the kernel's name in the file and the
//! type lists its parameters. Loading a module looks every row up; a launch names a field. `signature.rs` compares the
//! rows with the text of the files, in both directions.

use std::marker::PhantomData;

use cudarc::driver::sys;

use super::param::Params;
use crate::Result;

/// A kernel that takes the parameters `P`.
pub(super) struct Kernel<P> {
    pub(super) name: String,
    pub(super) function: sys::CUfunction,
    params: PhantomData<fn(P)>,
}

#[expect(unsafe_code, reason = "a function handle belongs to the context, not to a thread")]
// SAFETY: as the reason says.
unsafe impl<P> Send for Kernel<P> {}
#[expect(unsafe_code, reason = "as above")]
// SAFETY: as above.
unsafe impl<P> Sync for Kernel<P> {}

/// One of several forms of a kernel; the end of the form's name in the file.
pub(super) trait Variant: Copy {
    const COUNT: usize;
    /// Every form, in the order of [`Self::index`].
    fn names() -> Vec<String>;
    fn index(self) -> usize;
}

impl<A: Variant, B: Variant> Variant for (A, B) {
    const COUNT: usize = A::COUNT * B::COUNT;

    fn names() -> Vec<String> {
        let (first, second) = (A::names(), B::names());
        first.iter().flat_map(|a| second.iter().map(move |b| [a, "_", b].concat())).collect()
    }

    fn index(self) -> usize {
        self.0.index() * B::COUNT + self.1.index()
    }
}

/// Implements [`Variant`] for an enum without fields: each form and the end of its kernels' names.
macro_rules! variants {
    ($type:ident { $($form:ident = $name:literal,)* }) => {
        impl $crate::backend::cuda::kernel::Variant for $type {
            const COUNT: usize = [$(Self::$form),*].len();

            fn names() -> Vec<String> {
                vec![$($name.to_owned()),*]
            }

            fn index(self) -> usize {
                [$(Self::$form),*].iter().position(|&form| form == self).expect("every form is listed")
            }
        }
    };
}
pub(super) use variants;

/// Kernels with the same parameters, one for each form of `V`.
pub(super) struct Family<V, P> {
    members: Vec<Kernel<P>>,
    variant: PhantomData<fn(V)>,
}

impl<V: Variant, P> Family<V, P> {
    pub(super) fn of(&self, variant: V) -> &Kernel<P> {
        &self.members[variant.index()]
    }
}

/// Finds a function of a module by its name.
pub(super) type Find<'a> = &'a dyn Fn(&str) -> Result<sys::CUfunction>;

/// The names of kernels and the types of their parameters.
#[cfg(test)]
pub(super) type Signatures = Vec<(String, Vec<super::param::Shape>)>;

/// What a row of [`kernels!`] stands for: one kernel or a family.
pub(super) trait Row: Sized {
    fn load(name: &str, find: Find<'_>) -> Result<Self>;

    #[cfg(test)]
    fn signatures(name: &str) -> Signatures;
}

impl<P: Params> Row for Kernel<P> {
    fn load(name: &str, find: Find<'_>) -> Result<Self> {
        Ok(Self { name: name.to_owned(), function: find(name)?, params: PhantomData })
    }

    #[cfg(test)]
    fn signatures(name: &str) -> Signatures {
        vec![(name.to_owned(), P::shapes())]
    }
}

impl<V: Variant, P: Params> Family<V, P> {
    fn member_names(name: &str) -> impl Iterator<Item = String> {
        V::names().into_iter().map(move |variant| [name, "_", &variant].concat())
    }
}

impl<V: Variant, P: Params> Row for Family<V, P> {
    fn load(name: &str, find: Find<'_>) -> Result<Self> {
        let members = Self::member_names(name).map(|name| Kernel::load(&name, find));
        Ok(Self { members: members.collect::<Result<_>>()?, variant: PhantomData })
    }

    #[cfg(test)]
    fn signatures(name: &str) -> Signatures {
        Self::member_names(name).map(|name| (name, P::shapes())).collect()
    }
}

/// The kernels of one file.
pub(super) trait Module: Sized {
    fn load(find: Find<'_>) -> Result<Self>;

    #[cfg(test)]
    fn signatures() -> Signatures;
}

/// Declares the kernels of a file: a field for each, with its parameters in its type.
macro_rules! kernels {
    ($(#[$doc:meta])* struct $module:ident { $($name:ident: $row:ty,)* }) => {
        $(#[$doc])*
        pub(in $crate::backend::cuda) struct $module {
            $(pub(in $crate::backend::cuda) $name: $row,)*
        }

        impl $crate::backend::cuda::kernel::Module for $module {
            fn load(find: $crate::backend::cuda::kernel::Find<'_>) -> $crate::Result<Self> {
                use $crate::backend::cuda::kernel::Row;
                Ok(Self { $($name: <$row as Row>::load(stringify!($name), find)?,)* })
            }

            #[cfg(test)]
            fn signatures() -> $crate::backend::cuda::kernel::Signatures {
                use $crate::backend::cuda::kernel::Row;
                [$(<$row as Row>::signatures(stringify!($name))),*].concat()
            }
        }
    };
}
pub(super) use kernels;

#[cfg(test)]
mod tests {
    use super::super::buffer::Kind;
    use super::*;

    #[test]
    fn forms_of_two_kinds_are_named_and_counted_in_one_order() {
        let all = [Kind::F32, Kind::Bf16];
        let pairs = all.iter().flat_map(|&a| all.map(|b| (a, b)));
        let names = <(Kind, Kind)>::names();
        assert_eq!(names, ["f32_f32", "f32_bf16", "bf16_f32", "bf16_bf16"]);
        assert!(pairs.map(Variant::index).eq(0..names.len()));
    }

    #[test]
    fn a_family_loads_a_function_for_each_form() {
        let find = |name: &str| Ok(name.len() as sys::CUfunction);
        let family = Family::<Kind, (i32,)>::load("sum", &find).unwrap();
        assert_eq!(family.of(Kind::Bf16).name, "sum_bf16");
        assert_eq!(family.of(Kind::F32).function as usize, "sum_f32".len());
        let missing = |_: &str| Err(crate::Error::BackwardTwice);
        assert!(Family::<Kind, (i32,)>::load("sum", &missing).is_err());
    }
}

//! What a kernel takes: addresses, numbers, and small structures by value.
//!
//! In tests every type knows its C++ counterpart, so that a kernel's declaration in Rust can be compared with its text.

use std::ffi::c_void;
use std::ptr;

/// The address of elements that a kernel reads: `const T *`. Zero stands for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Read(pub(super) u64);

/// The address of elements that a kernel writes: `T *`. Zero stands for none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Write(pub(super) u64);

impl Read {
    pub(super) const NONE: Self = Self(0);
}

/// A member of a C++ structure as its text spells it: type, name, and how many elements it has.
#[cfg(test)]
pub(super) type Member = (&'static str, &'static str, usize);

/// A type with the same bytes in C++: its name there, and how many elements it has.
#[cfg(test)]
pub(super) trait Plain: Copy {
    const NAME: &'static str;
    const LEN: usize = 1;
}

/// One parameter of a kernel, passed by value.
pub(super) trait Param: Copy {
    /// The C++ type; every pointer is `const *` or `*`, whatever it points to.
    #[cfg(test)]
    const NAME: &'static str;
    /// The members, if it is a structure.
    #[cfg(test)]
    const MEMBERS: &'static [Member] = &[];
}

macro_rules! plain {
    ($($type:ty = $name:literal,)*) => {$(
        #[cfg(test)]
        impl Plain for $type {
            const NAME: &'static str = $name;
        }

        impl Param for $type {
            #[cfg(test)]
            const NAME: &'static str = $name;
        }
    )*};
}

plain! {
    i32 = "int",
    i64 = "i64",
    f32 = "float",
    Read = "const *",
    Write = "*",
}

#[cfg(test)]
impl<T: Plain, const N: usize> Plain for [T; N] {
    const NAME: &'static str = T::NAME;
    const LEN: usize = N;
}

/// Declares structures that kernels take by value, with the names of type and members that the C++ text has.
macro_rules! structures {
    ($($(#[$doc:meta])* struct $name:ident { $($member:ident: $type:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        #[repr(C)]
        pub(super) struct $name {
            $(pub(super) $member: $type,)*
        }

        impl $crate::backend::cuda::param::Param for $name {
            #[cfg(test)]
            const NAME: &'static str = stringify!($name);
            #[cfg(test)]
            const MEMBERS: &'static [$crate::backend::cuda::param::Member] = &[$((
                <$type as $crate::backend::cuda::param::Plain>::NAME,
                stringify!($member),
                <$type as $crate::backend::cuda::param::Plain>::LEN,
            ),)*];
        }
    )*};
}
pub(super) use structures;

/// A type and, for a structure, its members.
#[cfg(test)]
pub(super) type Shape = (&'static str, &'static [Member]);

/// All parameters of a kernel, in order.
pub(super) trait Params: Copy {
    /// Calls `f` with the address of each parameter.
    fn with_addresses<R>(&self, f: impl FnOnce(&mut [*mut c_void]) -> R) -> R;

    #[cfg(test)]
    fn shapes() -> Vec<Shape>;
}

macro_rules! tuples {
    ($($first:ident $($rest:ident)*)?) => {$(
        impl<$first: Param, $($rest: Param),*> Params for ($first, $($rest,)*) {
            #[expect(non_snake_case, reason = "a parameter is named as its type")]
            fn with_addresses<R>(&self, f: impl FnOnce(&mut [*mut c_void]) -> R) -> R {
                let ($first, $($rest,)*) = self;
                f(&mut [
                    ptr::from_ref($first).cast_mut().cast(),
                    $(ptr::from_ref($rest).cast_mut().cast(),)*
                ])
            }

            #[cfg(test)]
            fn shapes() -> Vec<Shape> {
                vec![($first::NAME, $first::MEMBERS), $(($rest::NAME, $rest::MEMBERS),)*]
            }
        }

        tuples!($($rest)*);
    )?};
}

tuples!(A B C D E F G H I J K L);

#[cfg(test)]
mod tests {
    use super::*;

    structures! {
        struct Pair {
            length: i32,
            steps: [f32; 3],
        }
    }

    #[test]
    fn a_structure_knows_its_members_and_is_as_large_as_they_are() {
        let pair = Pair { length: 1, steps: [2.0; 3] };
        assert_eq!(Pair::MEMBERS, [("int", "length", 1), ("float", "steps", 3)]);
        assert_eq!(size_of_val(&pair), size_of_val(&pair.length) + size_of_val(&pair.steps));
    }

    #[test]
    fn every_parameter_is_handed_over_at_its_own_address() {
        let params = (7_i32, Read(1 << 40), 0.5_f32, Write(3));
        params.with_addresses(|addresses| {
            assert_eq!(addresses.len(), 4);
            assert_eq!(addresses[0].cast_const().cast(), ptr::from_ref(&params.0));
            assert_eq!(addresses[3].cast_const().cast(), ptr::from_ref(&params.3));
        });
    }
}

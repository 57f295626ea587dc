//! The declarations.

/// Declares a struct of settings, as in the [crate's example](crate): serde reads and writes it and refuses unknown
/// keys, and [`Describe`](crate::Describe) gives name, meaning (the doc comment) and range of every key.
///
/// A field may have `#[within(..)]` with an interval, then `#[tuned(..)]` with a [search](crate::Search), then
/// `#[serde(..)]`, all after its doc comment.
#[macro_export]
macro_rules! settings {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $(<const $generic:ident : $of:ty>)? {
            $(
                $(#[doc = $doc:literal])*
                $(#[within($within:expr)])?
                $(#[tuned($tuned:expr)])?
                $(#[serde($($serde:tt)*)])?
                $field_vis:vis $field:ident : $ty:ty
            ),* $(,)?
        }
    ) => {
        #[derive($crate::serde::Serialize, $crate::serde::Deserialize)]
        $(#[$meta])*
        #[serde(crate = "paint_settings::serde", deny_unknown_fields)]
        $vis struct $name $(<const $generic: $of>)? {
            $(
                $(#[doc = $doc])*
                $(#[serde($($serde)*)])?
                $field_vis $field: $ty,
            )*
        }

        impl $(<const $generic: $of>)? $crate::Describe for $name $(<$generic>)? {
            const KIND: $crate::Kind = $crate::Kind::Table(&[
                $($crate::Key {
                    name: stringify!($field),
                    doc: concat!($($doc, "\n"),*),
                    kind: <$ty as $crate::Describe>::KIND $(.within($within))?,
                    search: [$(Some($tuned),)? None][0],
                }),*
            ]);
        }
    };
}

/// Declares an enum whose names are values of a setting, each with its meaning as a doc comment.
///
/// A variant may have `#[default]`, then `#[serde(alias = "..")]`, both after its doc comment.
#[macro_export]
macro_rules! choice {
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident {
            $(
                $(#[doc = $doc:literal])*
                $(#[default $($default:tt)*])?
                $(#[serde($($serde:tt)*)])?
                $variant:ident = $text:literal
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, $crate::serde::Serialize, $crate::serde::Deserialize)]
        #[serde(crate = "paint_settings::serde")]
        $vis enum $name {
            $(
                $(#[doc = $doc])*
                $(#[default $($default)*])?
                #[serde(rename = $text)]
                $(#[serde($($serde)*)])?
                $variant,
            )*
        }

        impl $crate::Describe for $name {
            const KIND: $crate::Kind = $crate::Kind::Choice(&[
                $($crate::Choice { name: $text, doc: concat!($($doc, "\n"),*) }),*
            ]);
        }
    };
}

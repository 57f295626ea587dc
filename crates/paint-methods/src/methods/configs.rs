//! The settings of every method as types, for programs that do not read them from a file.
//!
//! Each type has a field for every key, and knows its method's name ([`Settings`]). [`Default`] gives the values of
//! the default preset, for the baselines those of a vision transformer on ImageNet; `preset` gives others. Later
//! versions may add keys, so end a literal with `..`:
//!
//! ```
//! use paint_methods::configs::{Preset, Settings, Tent};
//!
//! # fn main() -> paint_methods::Result<()> {
//! let tent = Tent { lr: 1e-3, ..Tent::preset(Preset::CnnCifar10) };
//! assert_eq!((Tent::METHOD, tent.table()?["lr"].as_float()), ("tent", Some(1e-3)));
//! # Ok(())
//! # }
//! ```

pub use super::bn_adapt::Config as BnAdapt;
pub use super::cotta::{Config as Cotta, TeacherLoss};
pub use super::cpl::{Config as Cpl, SourceLoss};
pub use super::deyo::Config as Deyo;
pub use super::dpcore::{Config as DpCore, Followed};
pub use super::eata::{Eata, Eta};
pub use super::ecotta::{Config as EcoTta, EntropyTrains, FrozenStatistics};
pub use super::gain::{Anchors, Config as Gain};
pub use super::keel::Config as Keel;
pub use super::lame::{Affinity, Config as Lame};
pub use super::neo::{Config as Neo, FeatureAverage};
pub use super::paint::{
    Bound, Config as Paint, Denominator, FrozenNorm, LossForm, MixInput, OptimizerKind,
    Preset as PaintPreset, Retrieval,
};
pub use super::pea::{Compared, Config as Pea};
pub use super::rdumb::Config as RDumb;
pub use super::rem::Config as Rem;
pub use super::rmt::{Config as Rmt, Variant as RmtVariant};
pub use super::roid::{Config as Roid, Filter as WeightFilter, PriorCorrection};
pub use super::rotta::Config as Rotta;
pub use super::santa::Config as Santa;
pub use super::sar::{Average as AverageAfterReset, Config as Sar};
pub use super::source::Config as Source;
pub use super::t3a::Config as T3a;
pub use super::tent::Config as Tent;
pub use super::vdp::Config as Vdp;
pub use super::zerosiam::Config as ZeroSiam;
pub use crate::contrast::Projection;
pub use crate::entropy_filter::EntropyLoss;
pub use crate::learner::Descent;
pub use crate::preset::Preset;
pub use crate::settings::Settings;
pub use paint_nn::backbone::{Pooling, PromptPosition};

#[cfg(test)]
mod tests {
    use std::fmt::Debug;

    use super::super::METHODS;
    use super::*;

    /// The name of a method, and whether its typed settings are the ones that it reads.
    fn row<S: Settings + PartialEq + Debug>() -> &'static str {
        let entry = METHODS.iter().find(|entry| entry.name == S::METHOD).unwrap();
        let table = S::default().table().unwrap();
        assert_eq!(entry.resolve(&toml::Table::new()).unwrap(), table, "{}", S::METHOD);
        assert_eq!(entry.resolve(&table).unwrap(), table, "{}", S::METHOD);
        assert_eq!(S::read(&table).unwrap(), S::default());
        S::METHOD
    }

    #[test]
    fn every_method_has_typed_settings_whose_default_is_its_own() {
        let typed = [
            row::<Source>(),
            row::<BnAdapt>(),
            row::<Tent>(),
            row::<Eta>(),
            row::<Eata>(),
            row::<RDumb>(),
            row::<Sar>(),
            row::<Deyo>(),
            row::<Roid>(),
            row::<Cpl>(),
            row::<Cotta>(),
            row::<Rotta>(),
            row::<Rmt>(),
            row::<Santa>(),
            row::<EcoTta>(),
            row::<Vdp>(),
            row::<Gain>(),
            row::<Pea>(),
            row::<ZeroSiam>(),
            row::<Rem>(),
            row::<DpCore>(),
            row::<Lame>(),
            row::<T3a>(),
            row::<Neo>(),
            row::<Keel>(),
            row::<Paint>(),
        ];
        assert_eq!(typed.to_vec(), METHODS.iter().map(|entry| entry.name).collect::<Vec<_>>());
    }

    #[test]
    fn typed_settings_that_break_a_rule_are_refused_by_the_method() {
        let table = Sar { e0: 2.0, ..Sar::default() }.table().unwrap();
        assert!(
            Sar::read(&table).unwrap_err().to_string().contains("e0: expected 0 to 1, got 2.0")
        );
        let table = Eta { alpha: 1.0, ..Eta::default() }.table().unwrap();
        assert!(Eta::read(&table).unwrap_err().to_string().contains("that is eata"));
    }
}

//! Any clean dataset, corrupted on the fly.
//!
//! The domains are the corruptions at their five severities, the clean images, and the held-out pairs, `a+b`, at five
//! severities. An image's draws depend on the seed, the corruption, the severity and its index alone, so it looks the
//! same in every scenario and on every thread.

use paint_rng::Seed;

use super::{Dataset, Domain, Info, Sample};
use crate::{
    Error, Result,
    corruption::{self, CORRUPTIONS, Corruption, FrostTextures, HELD_OUT_PAIRS, Table},
};

/// A dataset with one domain, seen through every corruption.
pub struct Corrupted {
    clean: Box<dyn Dataset>,
    domains: Vec<Domain>,
    /// What each domain does to an image, in order.
    recipes: Vec<Vec<&'static Corruption>>,
    table: Option<Table>,
    textures: Option<FrostTextures>,
    seed: Seed,
}

impl Corrupted {
    /// Corrupts `clean`, which must have one domain.
    pub fn new(clean: Box<dyn Dataset>, seed: Seed) -> Result<Self> {
        if clean.domains().len() != 1 {
            return Err(Error::Argument {
                what: "dataset to corrupt",
                expected: "one domain of clean images".into(),
                got: format!("{} domains", clean.domains().len()),
            });
        }
        let mut all = Self {
            clean,
            domains: Vec::new(),
            recipes: Vec::new(),
            table: None,
            textures: None,
            seed,
        };
        CORRUPTIONS.iter().for_each(|corruption| all.add(&[corruption]));
        all.domains.push(Domain::clean());
        all.recipes.push(Vec::new());
        for pair in HELD_OUT_PAIRS {
            all.add(&pair.split('+').map(corruption::by_name).collect::<Result<Vec<_>>>()?);
        }
        Ok(all)
    }

    /// Adds corruptions one after the other as a domain at each severity.
    fn add(&mut self, recipe: &[&'static Corruption]) {
        let name = recipe.iter().map(|corruption| corruption.name).collect::<Vec<_>>().join("+");
        for severity in 1..=Corruption::MAX_SEVERITY {
            self.domains.push(Domain { name: name.clone(), severity: Some(severity) });
            self.recipes.push(recipe.to_vec());
        }
    }

    /// With the parameters of this table; otherwise each image's size chooses.
    #[must_use]
    pub fn with_table(self, table: Table) -> Self {
        Self { table: Some(table), ..self }
    }

    /// With other frost textures than the built-in ones.
    #[must_use]
    pub fn with_textures(self, textures: FrostTextures) -> Self {
        Self { textures: Some(textures), ..self }
    }
}

impl Dataset for Corrupted {
    fn info(&self) -> &Info {
        self.clean.info()
    }

    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn len(&self, _domain: usize) -> usize {
        self.clean.len(0)
    }

    fn label(&self, _domain: usize, index: usize) -> Option<usize> {
        self.clean.label(0, index)
    }

    fn sample(&self, domain: usize, index: usize) -> Result<Sample> {
        let Sample { mut image, label } = self.clean.sample(0, index)?;
        let Some(severity) = self.domains[domain].severity else {
            return Ok(Sample { image, label });
        };
        let table = self.table.unwrap_or_else(|| Table::for_size(image.width(), image.height()));
        let textures = self.textures.as_ref().unwrap_or_else(|| FrostTextures::built_in());
        for corruption in &self.recipes[domain] {
            let mut rng = corruption.stream(self.seed, severity, index as u64);
            image = corruption.apply_with(&image, severity, table, textures, &mut rng)?;
        }
        Ok(Sample { image, label })
    }

    fn content(&self, _domain: usize, index: usize) -> Result<Vec<u8>> {
        self.clean.content(0, index)
    }

    fn notes(&self) -> Vec<String> {
        self.clean.notes()
    }
}

#[cfg(test)]
mod tests {
    use super::{super::Memory, *};
    use crate::{Image, corruption};

    fn clean(parts: usize) -> Box<dyn Dataset> {
        let info = Info { name: "memory", num_classes: 2, class_indices: None, class_names: None };
        let sample =
            |i: u8| Sample { image: Image::new(8, 6, vec![100 + i; 144]).unwrap(), label: Some(1) };
        let part = || (Domain::clean(), (0..3).map(sample).collect());
        Box::new(Memory::new(info, (0..parts).map(|_| part()).collect()).unwrap())
    }

    #[test]
    fn a_domain_is_a_corruption_at_a_severity_with_its_own_stream() {
        let data = Corrupted::new(clean(1), Seed(4)).unwrap();
        assert_eq!(data.domains().len(), (CORRUPTIONS.len() + HELD_OUT_PAIRS.len()) * 5 + 1);
        let domain = data
            .domains()
            .iter()
            .position(|d| d.name == "shot_noise" && d.severity == Some(3))
            .unwrap();
        let sample = data.sample(domain, 2).unwrap();
        let shot_noise = corruption::by_name("shot_noise").unwrap();
        let original = Image::new(8, 6, vec![102; 144]).unwrap();
        let expected = shot_noise
            .apply(&original, 3, Table::Cifar, &mut shot_noise.stream(Seed(4), 3, 2))
            .unwrap();
        assert_eq!(sample, Sample { image: expected, label: Some(1) });
        assert_eq!(data.sample(domain, 2).unwrap(), sample);
        assert_ne!(Corrupted::new(clean(1), Seed(5)).unwrap().sample(domain, 2).unwrap(), sample);
        let coarse = Corrupted::new(clean(1), Seed(4)).unwrap().with_table(Table::ImageNet);
        assert_ne!(coarse.sample(domain, 2).unwrap(), sample);
        let clean = data.domains().iter().position(|domain| domain.severity.is_none()).unwrap();
        assert_eq!(data.sample(clean, 2).unwrap().image, original);
    }

    #[test]
    fn a_pair_is_one_corruption_after_the_other() {
        let data = Corrupted::new(clean(1), Seed(4)).unwrap();
        for pair in HELD_OUT_PAIRS {
            let named = |name: &str| {
                let is_it = |domain: &Domain| domain.name == name && domain.severity == Some(5);
                data.domains().iter().position(is_it).unwrap()
            };
            let (first, second) = pair.split_once('+').unwrap();
            let [first, second] = [first, second].map(|name| corruption::by_name(name).unwrap());
            let once = data.sample(named(first.name), 1).unwrap().image;
            let mut rng = second.stream(Seed(4), 5, 1);
            let expected = second.apply(&once, 5, Table::Cifar, &mut rng).unwrap();
            assert_eq!(data.sample(named(pair), 1).unwrap().image, expected);
            assert!(first.held_out && second.held_out && once != expected, "{pair}");
        }
    }

    #[test]
    fn a_dataset_of_several_domains_is_refused() {
        assert!(Corrupted::new(clean(2), Seed(0)).is_err());
    }
}

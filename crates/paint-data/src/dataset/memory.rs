//! Images given in memory: embedded assets and tests.

use super::{Dataset, Domain, Info, Sample};
use crate::{Error, Result};

/// A dataset that owns its samples.
#[derive(Debug, Clone)]
pub struct Memory {
    info: Info,
    domains: Vec<Domain>,
    samples: Vec<Vec<Sample>>,
}

impl Memory {
    /// A dataset of these domains; every label must be below `info.num_classes`.
    pub fn new(info: Info, parts: Vec<(Domain, Vec<Sample>)>) -> Result<Self> {
        for label in parts.iter().flat_map(|(_, samples)| samples).filter_map(|sample| sample.label)
        {
            if label >= info.num_classes {
                return Err(Error::Argument {
                    what: "label",
                    expected: format!("a class below {}", info.num_classes),
                    got: label.to_string(),
                });
            }
        }
        let (domains, samples) = parts.into_iter().unzip();
        Ok(Self { info, domains, samples })
    }
}

impl Dataset for Memory {
    fn info(&self) -> &Info {
        &self.info
    }

    fn domains(&self) -> &[Domain] {
        &self.domains
    }

    fn len(&self, domain: usize) -> usize {
        self.samples[domain].len()
    }

    fn label(&self, domain: usize, index: usize) -> Option<usize> {
        self.samples[domain][index].label
    }

    fn sample(&self, domain: usize, index: usize) -> Result<Sample> {
        Ok(self.samples[domain][index].clone())
    }
}

//! Which class a folder's name stands for.
//!
//! The class of the model if all folders have names that the model gives its classes, ImageNet's index if all are
//! WordNet ids, the number if all are numbers. Other names are refused where the model's are known, and otherwise
//! numbered in alphabetical order.

use std::path::Path;

use super::super::imagenet;
use crate::{Error, Result};

/// How many classes of a model a message names.
const SHOWN: usize = 12;

/// What the names of class folders mean.
pub(super) struct Meaning {
    /// The class of each.
    pub(super) of: Vec<usize>,
    pub(super) num_classes: usize,
    pub(super) class_names: Option<Vec<String>>,
}

impl Meaning {
    /// The meaning of sorted names; `known` are the model's own, if it has names.
    pub(super) fn find(names: &[&str], known: &[String], root: &Path) -> Result<Self> {
        let place = |name: &&str| {
            let mut places = known.iter().enumerate().filter(|(_, class)| class == name);
            places.next().filter(|_| places.next().is_none()).map(|(place, _)| place)
        };
        if let Some(of) = all(names, place) {
            let class_names = Some(known.to_vec());
            return Ok(Self { of, num_classes: known.len(), class_names });
        }
        let is_foreign = names.iter().all(|name| place(name).is_none());
        if let Some(of) = all(names, |name| imagenet::class_of_wnid(name)).filter(|_| is_foreign) {
            return Ok(Self { of, num_classes: imagenet::NUM_CLASSES, class_names: None });
        }
        let number = |name: &&str| Some(name.parse::<u32>().ok()? as usize);
        if let Some(of) = all(names, number).filter(|_| is_foreign) {
            let num_classes = of.iter().max().map_or(0, |max| max + 1);
            return Ok(Self { of, num_classes, class_names: None });
        }
        if let Some(name) = names.iter().find(|name| !known.is_empty() && place(name).is_none()) {
            let shown = known.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = if known.len() > SHOWN { ", ..." } else { "" };
            let expected = format!(
                "folders named after the classes of the model ({shown}{more}); if they are domains with folders of classes \
                 in them, add --set data.options.domains=folders; if they are neither, --set data.options.labels=ignored"
            );
            return Err(Error::format(expected, format!("{name:?}"), root.join(name)));
        }
        let class_names = if names.is_empty() {
            known.to_vec()
        } else {
            names.iter().map(|&name| name.to_owned()).collect()
        };
        let class_names = Some(class_names).filter(|names| !names.is_empty());
        Ok(Self { of: (0..names.len()).collect(), num_classes: names.len(), class_names })
    }
}

/// What every name means, if there are names and each means something.
fn all(names: &[&str], meaning: impl Fn(&&str) -> Option<usize>) -> Option<Vec<usize>> {
    names.iter().map(meaning).collect::<Option<Vec<_>>>().filter(|of| !of.is_empty())
}

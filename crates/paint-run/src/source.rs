//! The source images of a configuration, for the methods that look at them before they are deployed.

use std::sync::Arc;

use paint_data::{Dataset, Loader, ReadAhead, SampleRef, Stream};
use paint_methods::SourceData;
use paint_nn::backbone::Spec;
use paint_rng::Seed;
use paint_tensor::{Device, Tensor};

use crate::config::{Resize, Source};
use crate::model::Fitted;
use crate::{Error, Result, classes};

/// How many images are drawn unless the configuration says: what EATA's authors take.
const IMAGES: usize = 2000;
/// Images that are decoded together.
const CHUNK: usize = 64;

/// Images of the source domain, at the model's size.
pub struct SourceImages {
    /// `[M, 3, H, W]` in [0, 1].
    images: Tensor,
    /// `M` columns of the logits, if every image is labelled.
    labels: Option<Vec<usize>>,
}

/// A dataset that source images are drawn from.
pub struct Pool {
    /// The images to draw from.
    pub dataset: Arc<dyn Dataset>,
    /// The images that may be drawn, with their columns of the logits.
    images: Vec<(usize, Option<usize>)>,
    /// How many are.
    wanted: usize,
    /// The seed of the draw, if it is not that of the run.
    seed: Option<u64>,
}

impl Pool {
    /// What `config` names. `classes` are those that compete, as places in the model's output; a labelled image of
    /// another class is left out.
    pub fn open(config: &Source, spec: &Spec, classes: Option<&[usize]>) -> Result<Self> {
        let refuse = |expected: String, found: String| {
            Err(Error::Source { expected, found, path: config.path.clone() })
        };
        let row = paint_data::dataset::entry(&config.name)?;
        if !row.is_inside && config.path.as_os_str().is_empty() {
            return Err(Error::NoSource { why: format!("source images as {:?}", config.name) });
        }
        let dataset: Arc<dyn Dataset> = (row.open)(&config.path, &config.options)?.into();
        classes::check_names(&config.options, dataset.info(), spec.num_classes)?;
        if dataset.domains().len() != 1 {
            let found = format!("{} domains in {:?}", dataset.domains().len(), config.name);
            return refuse("a dataset of one domain, the source".into(), found);
        }
        let columns = Columns { own: dataset.info().class_indices.as_deref(), classes };
        let labelled = (0..dataset.len(0)).all(|index| dataset.label(0, index).is_some());
        let mut found: Vec<(usize, Option<usize>)> = Vec::new();
        for index in 0..dataset.len(0) {
            let label = dataset.label(0, index).filter(|_| labelled);
            match label.map(|label| (label, columns.of(label))) {
                Some((label, Some(column))) if column >= columns.count(spec) => {
                    let expected =
                        format!("classes 0 to {}", columns.count(spec).saturating_sub(1));
                    return refuse(expected, format!("class {label} of image {index}"));
                }
                Some((_, None)) => {}
                Some((_, column)) => found.push((index, column)),
                None => found.push((index, None)),
            }
        }
        let wanted = config.images.unwrap_or(IMAGES.min(found.len()));
        if wanted == 0 || wanted > found.len() {
            let asked = config.images.unwrap_or(1).max(1);
            let found = format!("{} to draw {wanted} from", found.len());
            return refuse(format!("at least {asked} images (source.images)"), found);
        }
        Ok(Self { dataset, images: found, wanted, seed: config.seed })
    }

    /// The images of one run.
    pub fn draw(&self, run_seed: u64) -> Vec<(usize, Option<usize>)> {
        let seed = Seed(self.seed.unwrap_or(run_seed));
        let order = seed.derive("source", &[]).permutation(self.images.len());
        order[..self.wanted].iter().map(|&place| self.images[place]).collect()
    }
}

impl SourceImages {
    /// `M`.
    pub fn count(&self) -> usize {
        self.images.shape()[0]
    }

    /// Draws and reads the images that `config` asks for, resized as those of the stream are.
    pub fn open(
        config: &Source,
        run_seed: u64,
        spec: &Spec,
        (classes, resize): (Option<&[usize]>, Resize),
        device: &Device,
    ) -> Result<Self> {
        let pool = Pool::open(config, spec, classes)?;
        let images = pool.draw(run_seed);
        let fitted = Arc::new(Fitted::new(pool.dataset, &spec.preprocess, resize)?);
        Ok(Self {
            images: read(fitted, images.iter().map(|(index, _)| *index), spec, device)?,
            labels: images.iter().map(|(_, column)| *column).collect(),
        })
    }

    /// As a method takes them.
    pub fn data(&self) -> SourceData<'_> {
        SourceData { images: &self.images, labels: self.labels.as_deref() }
    }
}

/// From a label of the source dataset to a column of the logits.
struct Columns<'a> {
    /// The model's class of each label of the dataset, where it is not the label itself.
    own: Option<&'a [usize]>,
    /// The model's classes that compete; all if none.
    classes: Option<&'a [usize]>,
}

impl Columns<'_> {
    /// The column of a label; none if its class does not compete.
    fn of(&self, label: usize) -> Option<usize> {
        let class = self.own.map_or(Some(label), |own| own.get(label).copied())?;
        match self.classes {
            Some(classes) => classes.iter().position(|&other| other == class),
            None => Some(class),
        }
    }

    /// How many columns there are.
    fn count(&self, spec: &Spec) -> usize {
        self.classes.map_or(spec.num_classes, <[usize]>::len)
    }
}

/// The images of these places, in this order.
fn read(
    dataset: Arc<dyn Dataset>,
    places: impl Iterator<Item = usize>,
    spec: &Spec,
    device: &Device,
) -> Result<Tensor> {
    let samples: Vec<SampleRef> = places.map(|index| SampleRef { domain: 0, index }).collect();
    let mut pixels = Vec::new();
    for batch in Loader::new(dataset, Stream::of(&samples, CHUNK), ReadAhead::default()) {
        pixels.extend(batch?.images);
    }
    let [height, width] = spec.image_size;
    Ok(Tensor::from_vec(pixels, [samples.len(), 3, height, width], device)?)
}

#[cfg(test)]
mod tests {
    use paint_nn::backbone::vit::{Vit, VitConfig};
    use paint_nn::backbone::{Backbone as _, BuildOptions, Weights};

    use super::*;

    #[test]
    fn images_without_a_place_are_asked_for() {
        let config =
            VitConfig { depth: 1, embed_dim: 8, num_heads: 2, ..VitConfig::tiny_patch4_32() };
        let options = BuildOptions::new(&Device::cpu());
        let vit = Vit::build("test", config, Weights::Random(Seed(0)), &options).unwrap();
        let source: Source = toml::from_str("name = \"folder\"").unwrap();
        let error = Pool::open(&source, vit.spec(), None).err().unwrap().to_string();
        assert!(error.contains("\"folder\"") && error.contains("--source-data"), "{error}");
    }

    #[test]
    fn a_label_becomes_the_column_of_its_class_among_those_that_compete() {
        let all = Columns { own: None, classes: None };
        assert_eq!(all.of(7), Some(7));
        let some = Columns { own: None, classes: Some(&[9, 7]) };
        assert_eq!((some.of(7), some.of(9), some.of(8)), (Some(1), Some(0), None));
        let subset = Columns { own: Some(&[9, 4]), classes: Some(&[4, 9]) };
        assert_eq!((subset.of(0), subset.of(1), subset.of(2)), (Some(1), Some(0), None));
    }
}

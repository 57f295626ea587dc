//! Statistics as a safetensors file.

use std::collections::BTreeMap;
use std::path::Path;

use paint_nn::checkpoint::{self, Checkpoint, Dtype};

use super::query::QueryStatistics;
use super::{BlockStatistics, PatchStatistics, SourceStatistics};
use crate::{Error, Result};

/// What the metadata says of the content; the number grows when old files can no longer be read.
const KIND: (&str, &str) = ("kind", "paint source statistics 3");

impl SourceStatistics {
    /// Writes the file. It is complete, or not there.
    pub fn save(&self, path: impl AsRef<Path>) -> Result<()> {
        let d = self.width;
        let mut arrays: Vec<(String, Vec<usize>, &[f32])> = vec![
            ("key.mean".into(), vec![4 * d], &self.key_mean),
            ("key.std".into(), vec![4 * d], &self.key_std),
        ];
        let QueryStatistics { mean, std, basis, gain } = &self.query;
        arrays.push(("query.mean".into(), vec![mean.len()], mean));
        arrays.push(("query.std".into(), vec![mean.len()], std));
        arrays.push(("query.basis".into(), vec![gain.len(), mean.len()], basis));
        arrays.push(("query.gain".into(), vec![gain.len()], gain));
        for (i, block) in self.blocks.iter().enumerate() {
            let name = |what: &str| format!("blocks.{i}.{what}");
            arrays.push((name("cls.mean"), vec![d], &block.cls_mean));
            arrays.push((name("cls.var"), vec![d], &block.cls_var));
            if let Some(patch) = &block.patch {
                arrays.push((name("patch.mean"), vec![d], &patch.mean));
                arrays.push((name("patch.between"), vec![d], &patch.between));
                arrays.push((name("patch.var"), vec![d], &patch.var));
                arrays.push((name("patch.basis"), vec![patch.rank(), d], &patch.basis));
                arrays.push((name("patch.scale"), vec![patch.rank()], &patch.scale));
            }
        }
        let metadata = [
            (KIND.0, KIND.1.to_owned()),
            ("images", self.images.to_string()),
            ("weights", format!("{:016x}", self.weights)),
        ];
        let metadata = metadata.map(|(key, value)| (key.to_owned(), value)).into();
        let arrays =
            arrays.iter().map(|(name, shape, data)| (name.as_str(), shape.as_slice(), *data));
        Ok(checkpoint::write_safetensors(path, arrays, Dtype::F32, &metadata)?)
    }

    /// Reads a file that [`SourceStatistics::save`] wrote.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        Self::from_checkpoint(checkpoint::read(path)?, path)
    }

    /// Reads the content of such a file; `path` only serves the messages.
    pub fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        Self::from_checkpoint(checkpoint::decode(bytes, path)?, path)
    }

    fn from_checkpoint(mut file: Checkpoint, path: &Path) -> Result<Self> {
        let metadata = std::mem::take(&mut file.metadata);
        let refuse = |expected: &str, found: String| Error::StatisticsFile {
            expected: expected.to_owned(),
            found,
            path: path.to_owned(),
        };
        if metadata.get(KIND.0).map(String::as_str) != Some(KIND.1) {
            let found = metadata.get(KIND.0).map_or("none".to_owned(), |kind| format!("{kind:?}"));
            return Err(refuse(
                "a file that `paint stats` wrote, of kind \"paint source statistics 3\"",
                found,
            ));
        }
        let images = number(&metadata, "images")
            .and_then(|text| text.parse().ok())
            .filter(|&n: &usize| n > 1);
        let images = images.ok_or_else(|| {
            refuse("a number of images above 1", format!("{:?}", metadata.get("images")))
        })?;
        let weights =
            number(&metadata, "weights").and_then(|text| u64::from_str_radix(text, 16).ok());
        let weights = weights.ok_or_else(|| {
            refuse("a fingerprint of weights", format!("{:?}", metadata.get("weights")))
        })?;
        let key = file.get("key.mean").map_or(0, |array| array.data.len());
        let d = key / 4;
        if d == 0 || !key.is_multiple_of(4) {
            return Err(refuse("four times the width in \"key.mean\"", format!("{key} numbers")));
        }
        let mut reader = Reader { file, path };
        let (key_mean, key_std) =
            (reader.take("key.mean", &[4 * d], false)?, reader.take("key.std", &[4 * d], true)?);
        let query = reader.query(3 * d)?;
        let mut blocks = Vec::new();
        while reader.file.get(&format!("blocks.{}.cls.mean", blocks.len())).is_some() {
            blocks.push(reader.block(blocks.len(), d)?);
        }
        if let Some((name, _)) = reader.file.iter().next() {
            return Err(refuse("no other arrays", format!("{name:?}")));
        }
        if blocks.is_empty() {
            return Err(refuse("at least one block", "none".to_owned()));
        }
        Ok(Self { images, width: d, weights, key_mean, key_std, query, blocks })
    }
}

fn number<'a>(metadata: &'a BTreeMap<String, String>, key: &str) -> Option<&'a str> {
    metadata.get(key).map(String::as_str)
}

struct Reader<'a> {
    file: Checkpoint,
    path: &'a Path,
}

impl Reader<'_> {
    fn query(&mut self, q: usize) -> Result<QueryStatistics> {
        let r = self.file.get("query.gain").map_or(1, |array| array.data.len()).max(1);
        Ok(QueryStatistics {
            mean: self.take("query.mean", &[q], false)?,
            std: self.take("query.std", &[q], true)?,
            gain: self.take("query.gain", &[r], true)?,
            basis: self.take("query.basis", &[r, q], false)?,
        })
    }

    fn block(&mut self, index: usize, d: usize) -> Result<BlockStatistics> {
        let name = |what: &str| format!("blocks.{index}.{what}");
        let cls_mean = self.take(&name("cls.mean"), &[d], false)?;
        let cls_var = self.take(&name("cls.var"), &[d], true)?;
        let scale = name("patch.scale");
        let patch = match self.file.get(&scale).map(|array| array.data.len()) {
            None => None,
            Some(r) => Some(PatchStatistics {
                mean: self.take(&name("patch.mean"), &[d], false)?,
                between: self.take(&name("patch.between"), &[d], true)?,
                var: self.take(&name("patch.var"), &[d], true)?,
                basis: self.take(&name("patch.basis"), &[r, d], false)?,
                scale: self.take(&scale, &[r], true)?,
            }),
        };
        Ok(BlockStatistics { cls_mean, cls_var, patch })
    }

    /// An array of finite numbers, all above 0 where `positive`.
    fn take(&mut self, name: &str, shape: &[usize], positive: bool) -> Result<Vec<f32>> {
        let refuse = |expected: String, found: String| {
            Err(Error::StatisticsFile { expected, found, path: self.path.to_owned() })
        };
        let Some(array) = self.file.remove(name) else {
            return refuse(format!("an array {name:?}"), "none".into());
        };
        if array.shape != shape {
            return refuse(format!("shape {shape:?} of {name:?}"), format!("{:?}", array.shape));
        }
        let fits = |x: &f32| x.is_finite() && (!positive || *x > 0.0);
        if let Some(x) = array.data.iter().find(|x| !fits(x)) {
            let what = if positive { "finite numbers above 0" } else { "finite numbers" };
            return refuse(format!("{what} in {name:?}"), x.to_string());
        }
        Ok(array.data)
    }
}

#[cfg(test)]
mod tests {
    use paint_nn::backbone::vit::{Vit, VitConfig};
    use paint_nn::backbone::{BuildOptions, Weights};
    use paint_nn::checkpoint::Array;
    use paint_rng::Seed;
    use paint_tensor::{Device, Tensor};

    use super::*;

    fn statistics() -> SourceStatistics {
        let config =
            VitConfig { depth: 2, embed_dim: 8, num_heads: 2, ..VitConfig::tiny_patch4_32() };
        let options = BuildOptions::new(&Device::cpu());
        let vit = Vit::build("test", config, Weights::Random(Seed(0)), &options).unwrap();
        let mut rng = Seed(1).derive("images", &[]);
        let pixels = (0..3 * 3 * 32 * 32).map(|_| rng.uniform() as f32).collect();
        let images = Tensor::from_vec(pixels, [3, 3, 32, 32], &Device::cpu()).unwrap();
        SourceStatistics::collect(&vit, &images).unwrap()
    }

    /// The arrays of a file as they were written, to be spoiled.
    fn spoiled(spoil: impl FnOnce(&mut Checkpoint)) -> String {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.safetensors");
        statistics().save(&path).unwrap();
        let mut file = checkpoint::read(&path).unwrap();
        spoil(&mut file);
        SourceStatistics::from_checkpoint(file, &path).unwrap_err().to_string()
    }

    fn change(file: &mut Checkpoint, name: &str, change: impl FnOnce(&mut Array)) {
        let mut array = file.remove(name).unwrap();
        change(&mut array);
        file.insert(name.to_owned(), array).unwrap();
    }

    #[test]
    fn a_file_gives_back_what_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.safetensors");
        let statistics = statistics();
        statistics.save(&path).unwrap();
        assert_eq!(SourceStatistics::open(&path).unwrap(), statistics);
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(SourceStatistics::decode(&bytes, &path).unwrap(), statistics);
        for length in (0..bytes.len()).step_by(97) {
            assert!(SourceStatistics::decode(&bytes[..length], &path).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn a_file_that_is_none_says_what_was_expected_and_where() {
        for (spoil, expected) in [
            (
                (|file| drop(file.metadata.remove("kind"))) as fn(&mut Checkpoint),
                "`paint stats` wrote",
            ),
            (
                |file| drop(file.metadata.insert("images".into(), "1".into())),
                "a number of images above 1",
            ),
            (|file| drop(file.metadata.insert("weights".into(), "x".into())), "a fingerprint"),
            (|file| drop(file.remove("key.mean")), "four times the width"),
            (|file| change(file, "query.gain", |a| a.data[0] = -1.0), "above 0 in \"query.gain\""),
            (
                |file| change(file, "query.gain", |a| (a.data, a.shape) = (Vec::new(), vec![0])),
                "shape [1] of \"query.gain\"",
            ),
            (|file| drop(file.remove("query.basis")), "an array \"query.basis\""),
            (|file| drop(file.remove("blocks.0.cls.var")), "an array \"blocks.0.cls.var\""),
            (|file| drop(file.remove("blocks.0.cls.mean")), "no other arrays"),
            (
                |file| change(file, "blocks.1.cls.var", |a| a.data[3] = 0.0),
                "above 0 in \"blocks.1.cls.var\"",
            ),
            (
                |file| change(file, "blocks.0.patch.basis", |a| a.data[3] = f32::NAN),
                "finite numbers in",
            ),
            (
                |file| change(file, "key.std", |a| a.shape = vec![2, 16]),
                "shape [32] of \"key.std\"",
            ),
        ] {
            let message = spoiled(spoil);
            assert!(message.contains(expected) && message.contains("s.safetensors"), "{message}");
        }
    }
}

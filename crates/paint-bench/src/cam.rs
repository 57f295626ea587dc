//! Activation maps (the paper's section "Visualization"): where a model looked when it decided.
//!
//! Where the clean image is known that a corrupted one was made from, as in the paper's figure, it has a map too.
//!
//! The gradient of one class's logit weighs the attention of every block: `relu(∂z_c/∂A ⊙ A)`, mean over heads, the
//! row of the class token over the columns of the patches, mean over blocks, stretched to [0, 1] and enlarged to the
//! image. Any method can be looked at: the attention is that of the last forward pass of its prediction, prompts and
//! all, and the mean over its rows where a method looks at several views of the image at once.
//!
//! # Fidelity
//! The paper says that gradients weigh the maps and that blocks are averaged; class, heads, the sign and the scale
//! are ours.

use paint_data::{Image, SampleRef};
use paint_methods::Method;
use paint_nn::backbone::AttentionMap;
use paint_run::watch::Watch;
use paint_run::{Error, Experiment, Result};
use paint_tensor::{Gradients, Tensor};
use serde::{Deserialize, Serialize};

/// One map.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ActivationMap {
    /// Rows and columns of patches.
    pub size: [usize; 2],
    /// In [0, 1], row by row.
    pub heat: Vec<f32>,
    /// The class that was asked for, or else predicted.
    pub class: usize,
    /// The class that was predicted.
    pub predicted: usize,
}

/// Where a method looked in an image of a stream.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Maps {
    /// In the image as it came.
    pub map: ActivationMap,
    /// In the clean image that it was made from, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean: Option<ActivationMap>,
}

/// The map of one image `[1, 3, H, W]` for `class`, or for the predicted one. `None` if the network has no attention.
pub fn activation_map(
    method: &dyn Method,
    watch: &Watch,
    image: &Tensor,
    class: Option<usize>,
) -> Result<Option<ActivationMap>> {
    let Some(features) = watch.attention(|| method.predict(image))? else { return Ok(None) };
    let [views, classes] = features.logits.dims2("logits")?;
    let sum = features.logits.detach().sum(0)?.reshape([1, classes])?;
    let predicted = sum.argmax()?.first().copied().unwrap_or_default();
    let class = class.unwrap_or(predicted);
    if class >= classes {
        return Err(Error::config(format!("class: expected one below {classes}, got {class}")));
    }
    if features.attention.is_empty() {
        return Ok(None);
    }
    let gradients = features.logits.pick(&vec![class; views])?.sum_all()?.backward()?;
    let mut heat: Vec<f32> = Vec::new();
    let mut size = [0, 0];
    for block in &features.attention {
        let Some(row) = block_heat(block, &gradients)? else { continue };
        // Only the last tokens are patches.
        size = block.layout.grid;
        let row = &row[row.len() - size[0] * size[1]..];
        heat.resize(row.len(), 0.0);
        heat.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
    let (low, high) = heat.iter().fold((f32::MAX, f32::MIN), |(a, b), &v| (a.min(v), b.max(v)));
    let span = if high > low { high - low } else { 1.0 };
    heat.iter_mut().for_each(|value| *value = (*value - low) / span);
    Ok(Some(ActivationMap { size, heat, class, predicted }))
}

/// The maps of one image of an experiment's stream and of the clean one beside it, by a method of that experiment.
pub fn look(
    experiment: &Experiment,
    method: &mut dyn Method,
    at: SampleRef,
    class: Option<usize>,
) -> Result<Option<Maps>> {
    let mut map_of = |image: &Image, domain: usize| {
        let (width, height) = (image.width(), image.height());
        let mut pixels = vec![0.0; 3 * width * height];
        image.to_chw(&mut pixels);
        let image = Tensor::from_vec(pixels, [1, 3, height, width], experiment.device())?;
        method.set_domain(Some(domain));
        activation_map(method, experiment.watch(), &image, class)
    };
    let sample = experiment.dataset.sample(at.domain, at.index)?;
    let Some(map) = map_of(&sample.image, at.domain)? else { return Ok(None) };
    let clean = match experiment.clean_image(at)? {
        Some(clean) => map_of(&clean.sample.image, clean.domain)?,
        None => None,
    };
    Ok(Some(Maps { map, clean }))
}

/// `relu(gradient · attention)`, mean over views and heads, of the class token to every token; of all tokens, and their
/// mean, where there is no class token.
fn block_heat(block: &AttentionMap, gradients: &Gradients) -> Result<Option<Vec<f32>>> {
    let Some(gradient) = block.gradient(gradients)? else { return Ok(None) };
    let [views, heads, tokens, _] = block.map.dims4("attention map")?;
    let queries = if block.layout.class_token { 1 } else { tokens };
    let rows = |x: &Tensor| -> Result<Vec<f32>> { Ok(x.slice(2, 0, queries)?.to_vec()?) };
    let (attention, gradient) = (rows(&block.map)?, rows(&gradient)?); // [V, h, Q, T]
    let mut heat = vec![0.0; tokens];
    for (a, g) in attention.chunks_exact(tokens).zip(gradient.chunks_exact(tokens)) {
        for (sum, (a, g)) in heat.iter_mut().zip(a.iter().zip(g)) {
            *sum += (a * g).max(0.0) / (views * heads * queries) as f32;
        }
    }
    Ok(Some(heat))
}

impl ActivationMap {
    /// The map over an image, blue through yellow to red.
    pub fn over(&self, image: &Image) -> Result<Image> {
        let [rows, columns] = self.size;
        let (width, height) = (image.width(), image.height());
        let mut pixels = Vec::with_capacity(width * height * 3);
        for (i, pixel) in image.pixels().chunks_exact(3).enumerate() {
            let place = |at: usize, of: usize, cells: usize| {
                ((at as f32 + 0.5) / of as f32 * cells as f32 - 0.5).clamp(0.0, cells as f32 - 1.0)
            };
            let (y, x) = (place(i / width, height, rows), place(i % width, width, columns));
            let at = |row: usize, column: usize| {
                self.heat[row.min(rows - 1) * columns + column.min(columns - 1)]
            };
            let (top, left) = (y as usize, x as usize);
            let (dy, dx) = (y - top as f32, x - left as f32);
            let upper = at(top, left) * (1.0 - dx) + at(top, left + 1) * dx;
            let lower = at(top + 1, left) * (1.0 - dx) + at(top + 1, left + 1) * dx;
            let colour = colour(upper * (1.0 - dy) + lower * dy);
            pixels.extend(
                pixel.iter().zip(colour).map(|(p, c)| (f32::from(*p) * 0.45 + c * 0.55) as u8),
            );
        }
        Ok(Image::new(width, height, pixels)?)
    }
}

/// Blue, cyan, yellow, red.
fn colour(heat: f32) -> [f32; 3] {
    const STOPS: [[f32; 3]; 4] =
        [[20.0, 30.0, 110.0], [20.0, 160.0, 190.0], [250.0, 220.0, 60.0], [210.0, 30.0, 30.0]];
    let at = heat.clamp(0.0, 1.0) * (STOPS.len() - 1) as f32;
    let low = (at as usize).min(STOPS.len() - 2);
    let part = at - low as f32;
    std::array::from_fn(|c| STOPS[low][c] * (1.0 - part) + STOPS[low + 1][c] * part)
}

/// Images of one height side by side, enlarged by a whole factor, with a gap between.
pub fn side_by_side(images: &[Image], factor: usize) -> Result<Image> {
    let gap = 2 * factor;
    let height = images.iter().map(Image::height).max().unwrap_or(1) * factor;
    let width = images.iter().map(|image| image.width() * factor + gap).sum::<usize>();
    let width = width.saturating_sub(gap).max(1);
    let mut pixels = vec![255; width * height * 3];
    let mut left = 0;
    for image in images {
        for y in 0..image.height() * factor {
            for x in 0..image.width() * factor {
                let from = ((y / factor) * image.width() + x / factor) * 3;
                let to = (y * width + left + x) * 3;
                pixels[to..to + 3].copy_from_slice(&image.pixels()[from..from + 3]);
            }
        }
        left += image.width() * factor + gap;
    }
    Ok(Image::new(width, height, pixels)?)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use paint_methods::{BuildArgs, by_name};
    use paint_nn::backbone::{Backbone as _, Request};
    use paint_rng::Seed;
    use paint_tensor::Device;

    use super::*;
    use paint_run::config::Model;
    use paint_run::model::{self, embedded};
    use paint_run::watch::Watched;

    #[test]
    fn the_map_is_the_gradient_of_the_logit_with_respect_to_the_attention() {
        // With one block more or less of the image blanked, a class's logit falls most where its map is hot: the map of
        // the embedded model, summed over the hottest and the coldest quarter of patches, must tell them apart.
        let device = Device::cpu();
        let model = model::open(&mut Model::new(embedded::NAME), &device).unwrap();
        let watch = Arc::new(Watch::default());
        let watched = Watched::new(&*model, Arc::clone(&watch));
        let method = by_name("source").unwrap();
        let method = method.build(&BuildArgs::new(&watched, Seed(0)), &toml::Table::new()).unwrap();
        let data = paint_data::dataset::embedded().unwrap();
        let (mut hot_drop, mut cold_drop) = (0.0, 0.0);
        for index in 0..12 {
            let mut pixels = vec![0.0; 3 * 32 * 32];
            paint_data::Dataset::sample(&data, 0, index).unwrap().image.to_chw(&mut pixels);
            let tensor = |pixels: &[f32]| {
                Tensor::from_vec(pixels.to_vec(), [1, 3, 32, 32], &device).unwrap()
            };
            let map = activation_map(&*method, &watch, &tensor(&pixels), None).unwrap().unwrap();
            assert_eq!(map.size, [8, 8]);
            assert_eq!(map.heat.iter().copied().fold(0.0, f32::max), 1.0);
            let mut order: Vec<usize> = (0..64).collect();
            order.sort_by(|a, b| map.heat[*b].total_cmp(&map.heat[*a]));
            let logit = |blank: &[usize]| {
                let mut pixels = pixels.clone();
                for &patch in blank {
                    for at in 0..3 * 16 {
                        let (c, y, x) = (at / 16, at / 4 % 4, at % 4);
                        pixels[c * 1024 + (patch / 8 * 4 + y) * 32 + patch % 8 * 4 + x] = 0.5;
                    }
                }
                f64::from(method.predict(&tensor(&pixels)).unwrap().to_vec().unwrap()[map.class])
            };
            let whole = logit(&[]);
            hot_drop += whole - logit(&order[..16]);
            cold_drop += whole - logit(&order[48..]);
        }
        assert!(hot_drop > 2.0 * cold_drop, "hot {hot_drop}, cold {cold_drop}");
    }

    /// A prediction out of three copies of the image in one pass.
    struct Thrice(Watched);

    impl Method for Thrice {
        fn step(&mut self, _images: &Tensor) -> paint_methods::Result<paint_methods::Step> {
            unreachable!("nothing is adapted here")
        }

        fn predict(&self, images: &Tensor) -> paint_methods::Result<Tensor> {
            let copies = Tensor::concat(&[images, images, images], 0)?;
            Ok(self.0.forward(&copies, &Request::default())?.logits.slice(0, 0, 1)?)
        }

        fn reset(&mut self) -> paint_methods::Result<()> {
            Ok(())
        }

        fn save(&self) -> paint_methods::Result<paint_methods::State> {
            Ok(paint_methods::State::default())
        }

        fn load(&mut self, _state: &paint_methods::State) -> paint_methods::Result<()> {
            Ok(())
        }

        fn trainable(&self) -> Vec<String> {
            Vec::new()
        }
    }

    #[test]
    fn a_method_that_looks_at_several_views_at_once_gets_their_mean() {
        let device = Device::cpu();
        let model = model::open(&mut Model::new(embedded::NAME), &device).unwrap();
        let watch = Arc::new(Watch::default());
        let watched = || Watched::new(&*model, Arc::clone(&watch));
        let source = by_name("source").unwrap();
        let once = source.build(&BuildArgs::new(&watched(), Seed(0)), &toml::Table::new()).unwrap();
        let pixels = (0..3072).map(|i| (i % 97) as f32 / 97.0).collect();
        let image = Tensor::from_vec(pixels, [1, 3, 32, 32], &device).unwrap();
        let expected = activation_map(&*once, &watch, &image, None).unwrap().unwrap();
        let found = activation_map(&Thrice(watched()), &watch, &image, None).unwrap().unwrap();
        assert_eq!(found.predicted, expected.predicted);
        assert_eq!(found.heat.len(), expected.heat.len());
        let mut pairs = found.heat.iter().zip(&expected.heat);
        assert!(pairs.all(|(a, b)| (a - b).abs() < 1e-4));
    }

    #[test]
    fn a_map_is_laid_over_an_image_of_another_shape() {
        let map = ActivationMap { size: [1, 2], heat: vec![0.0, 1.0], class: 0, predicted: 0 };
        let image = Image::new(8, 3, vec![128; 72]).unwrap();
        let over = map.over(&image).unwrap();
        assert_eq!((over.width(), over.height()), (8, 3));
        let (first, last) = (&over.pixels()[..3], &over.pixels()[21..24]);
        assert!(first[2] > first[0] && last[0] > last[2], "blue on the left, red on the right");
        let row = side_by_side(&[image, over], 2).unwrap();
        assert_eq!((row.width(), row.height()), (8 * 2 * 2 + 4, 6));
    }
}

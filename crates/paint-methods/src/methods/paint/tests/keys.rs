//! Keys of the preset `standardised`.

use paint_nn::backbone::Request;

use super::*;

#[test]
fn standardised_keys_are_clean_features_less_their_mean_in_their_deviations() {
    let (model, clean) = (vit(), images(70, 12));
    let settings = toml! { preset = "standardised" };
    let config = Config::read(&settings).unwrap();
    let message = Paint::new(&BuildArgs::new(&model, Seed(5)), config.clone()).err().unwrap();
    assert!(message.to_string().contains("`paint stats`"), "{message}");
    let source = Some(SourceData { images: &clean, labels: None });
    let args = BuildArgs { source, ..BuildArgs::new(&model, Seed(5)) };
    let mut paint = Paint::new(&args, config).unwrap();
    let features = |images: &Tensor| {
        model.forward(images, &Request::default()).unwrap().pooled.to_vec().unwrap()
    };
    let (clean, batch) = (features(&clean), images(3, 6));
    paint.adapt(&batch).unwrap();
    let (key, batch) = (paint.memory().key(0).unwrap(), features(&batch));
    for (c, found) in key.iter().enumerate() {
        let column = |rows: &[f32]| -> Vec<f64> {
            rows.iter().skip(c).step_by(key.len()).map(|&x| f64::from(x)).collect()
        };
        let mean = |x: &[f64]| x.iter().sum::<f64>() / x.len() as f64;
        let (clean, batch) = (column(&clean), column(&batch));
        let square: f64 = clean.iter().map(|x| (x - mean(&clean)).powi(2)).sum();
        let expected = (mean(&batch) - mean(&clean)) / (square / 11.0).sqrt();
        assert!((f64::from(*found) - expected).abs() < 1e-4, "{c}: {found} and {expected}");
    }
}

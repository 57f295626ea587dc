//! Augmented views against torchvision (`fixtures/make_views.py`).

#![expect(clippy::unwrap_used, reason = "a golden test stops at the first surprise")]

mod fixture;

use fixture::{Fixture, gap};
use paint_methods::views::{self, Noise, Padding};

#[test]
fn views_match_torchvision_with_and_without_padding() {
    let fixture = Fixture::read("paint/views.safetensors");
    let images = fixture.tensor("images");
    let padded = fixture.config["padded"].as_array().unwrap();
    assert_eq!(padded.len(), 7);
    for (i, padded) in padded.iter().enumerate() {
        let padding = if padded.as_bool().unwrap() { Padding::Edge } else { Padding::None };
        let noise = Noise::Recorded(fixture.values(&format!("{i}.noise")));
        let view = fixture.view(&i.to_string(), padding);
        let got = views::apply(&[(view, noise)], &images).unwrap().to_vec().unwrap();
        let found = gap(&got, &fixture.values(&format!("{i}.output")));
        // 1e-5: torchvision builds its sampling grid in float32; measured 1.8e-6.
        assert!(found < 1e-5, "case {i}: {found}");
    }
}

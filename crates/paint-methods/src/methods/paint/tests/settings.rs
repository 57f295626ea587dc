//! What settings give, what they refuse, and states that were saved with others.

use super::*;

#[test]
fn prompts_need_a_vision_transformer_and_a_residual_network_adapts_without_them() {
    let sizes = CifarResnetConfig { width: 4, ..CifarResnetConfig::batch_norm(1) };
    let options = BuildOptions::new(&Device::cpu());
    let cnn = sizes.build("tiny_resnet", Weights::Random(Seed(1)), &options).unwrap();
    let build = |settings: &Table| ENTRY.build(&BuildArgs::new(&cnn, Seed(5)), settings);
    assert_eq!(
        build(&Table::new()).err().unwrap().to_string(),
        "settings of paint: prompts are tokens of a vision transformer, and tiny_resnet is none; \
         prompt_length = 0 adapts it without them"
    );
    let pixels = (0..4 * 3 * 32 * 32).map(|i| (i % 7) as f32 / 7.0).collect();
    let images = Tensor::from_vec(pixels, [4, 3, 32, 32], &Device::cpu()).unwrap();
    let step = build(&toml! { prompt_length = 0 }).unwrap().step(&images).unwrap();
    assert_eq!(step.logits.shape(), [4, 10]);
}

#[test]
fn a_new_prompt_has_the_spread_that_was_asked_for() {
    let mut paint = paint(&toml! { prompt_std = 0.5 lr_prompts = 0.0 });
    paint.adapt(&images(1, 6)).unwrap();
    let expected: Vec<f32> = Seeded(Seed(5)).prompt(0, 32).iter().map(|z| 0.5 * z).collect();
    assert_eq!(paint.memory().prompt(0).unwrap().to_vec().unwrap(), expected);
}

#[test]
fn a_state_of_other_settings_is_refused_and_nothing_changes() {
    let mut donor = paint(&toml! { blocks = 2 });
    donor.adapt(&images(1, 6)).unwrap();
    let mut paint = paint(&Table::new());
    let before = saved(&paint);
    assert!(matches!(paint.load(&donor.save().unwrap()), Err(Error::State { .. })));
    assert_eq!(saved(&paint), before);
}

#[test]
fn a_preset_gives_defaults_and_keys_replace_them() {
    let config =
        Config::read(&toml! { preset = "reference_cifar10_c" phi = 0.9 beta = 2 }).unwrap();
    let preset = Config::preset(Preset::ReferenceCifar10C);
    assert_eq!(config, Config { phi: 0.9, beta: 2.0, ..preset });
    assert_eq!(Config::read(&Table::new()).unwrap(), Config::preset(Preset::PaperAdam));
}

#[test]
fn resolved_numbers_print_as_the_paper_prints_them() {
    let resolved = ENTRY.resolve(&toml! { preset = "paper" }).unwrap().to_string();
    for line in ["lr_prompts = 0.05", "eta = 0.2", "phi = 0.6", "gamma = 0.8", "alpha = 1.0"] {
        assert!(resolved.lines().any(|found| found == line), "{line} is missing in\n{resolved}");
    }
}

#[test]
fn settings_that_make_no_method_are_refused_with_the_reason() {
    for (settings, reason) in [
        (toml! { alpha = 0 }, "alpha"),
        (toml! { gamma = 1.5 }, "gamma"),
        (toml! { eta = -3 }, "eta: expected -1 to 1"),
        (toml! { eta = 1.5 }, "eta: expected -1 to 1"),
        (toml! { eta = nan }, "eta: expected -1 to 1"),
        (toml! { lr_blocks = -0.1 }, "lr_blocks"),
        (toml! { prompt_length = 0 blocks = 0 }, "nothing would train"),
        (toml! { prompt_length = 0 oracle = true }, "oracle"),
        (toml! { preset = "papre" }, "papre"),
        (toml! { capacity = 1 }, "capacity"),
    ] {
        let message = Config::read(&settings).unwrap_err().to_string();
        assert!(message.starts_with("settings of paint") && message.contains(reason), "{message}");
    }
    let config = Config::read(&toml! { blocks = 5 }).unwrap();
    let made = Paint::new(&BuildArgs::new(&vit(), Seed(0)), config);
    assert!(made.err().unwrap().to_string().contains("blocks is 5, tiny has 4"));
}

//! The settings with which every method has to keep its contract.

use paint_methods::{MethodEntry, Networks};
use toml::{Table, toml};

/// The settings a method is asked with: none, each preset, and then what a preset does not reach. All of them with what
/// a tiny drawn model needs: its entropies are seldom below the published margins.
pub(crate) fn variants(entry: &MethodEntry) -> Vec<Table> {
    let (always, more) = match entry.name {
        "paint" => {
            (Table::new(), vec![toml! { preset = "reference_imagenet_r" capacity = 2 eta = 1.0 }])
        }
        "cpl" => (Table::new(), vec![toml! { source_loss = "poly" }]),
        "bn_adapt" => (Table::new(), vec![toml! { source_images = 16.0 }]),
        "tent" => (Table::new(), vec![toml! { loss = "come" }]),
        "rdumb" => (toml! { e0 = 0.9 }, vec![toml! { interval = 2 d = 0.9 }]),
        "deyo" => (toml! { margin = 1.0 plpd = (-1.0) }, vec![toml! { patches = 2 plpd = 0.0 }]),
        "roid" => (
            Table::new(),
            vec![
                toml! { filter = "cmf" noise = 10.0 prior = "logits" },
                toml! { weighting = false consistency = false prior = "none" },
            ],
        ),
        "rotta" => (
            toml! { capacity = 8 update_every = 5 },
            vec![toml! { capacity = 1 update_every = 1 nu = 0.5 }],
        ),
        "lame" => (
            Table::new(),
            vec![toml! { affinity = "knn" neighbours = 2 }, toml! { affinity = "linear" }],
        ),
        "t3a" => (Table::new(), vec![toml! { supports = 1 }]),
        "neo" => (Table::new(), vec![toml! { average = "cumulative" }]),
        "sar" => (
            toml! { e0 = 0.9 },
            vec![
                toml! { average_after_reset = "forget" lr = 0.1 },
                toml! { loss = "come" e0 = 1.0 },
            ],
        ),
        "cotta" => (toml! { views = 2 }, vec![toml! { threshold = 1.1 restored = 0.5 }]),
        "rmt" => (
            toml! { warmup_images = 0 source_batch = 4 },
            vec![
                toml! { warmup_images = 12 preset = "cnn_cifar10" lr = 0.01 },
                toml! { variant = "source_free" },
            ],
        ),
        "ecotta" => (
            toml! { warmup_images = 0 source_batch = 4 e0 = 0.9 },
            vec![
                toml! { warmup_images = 12 warmup_views = true kernel = 1 parts = 4 },
                toml! { entropy_trains = "last" frozen_statistics = "batch" optimizer = "adam" },
            ],
        ),
        "santa" => (Table::new(), vec![toml! { contrast.images = 7 }]),
        "keel" => (
            toml! { memory = 20 fewest_images = 2 },
            vec![
                toml! { form = "gradient" preset = "vit_cifar10" trained_blocks = 2 joint = false },
                toml! { statistics = "none" },
                toml! { capacity = 2 first_block = 0 strength = 1.0 },
            ],
        ),
        "gain" => (Table::new(), vec![toml! { anchors = "rescaled" }]),
        "dpcore" => (
            toml! { new_steps = 3 source_entropy = 1.0 },
            vec![toml! { followed = "plain" helps = 1.1 }, toml! { helps = 0.0 }],
        ),
        "pea" => (Table::new(), vec![toml! { views = 0 compared = "tokens" threshold = 0.0 }]),
        "rem" => (toml! { frozen_blocks = 1 }, vec![toml! { views = 2 masked = 0.5 margin = 0.1 }]),
        "vdp" => (toml! { threshold = 0.5 }, vec![toml! { lr = 0.1 optimizer = "nesterov" }]),
        "eta" | "eata" => {
            (toml! { e0 = 0.9 }, vec![toml! { d = 0.9 }, toml! { loss = "come" e0 = 1.0 d = 0.9 }])
        }
        _ => (Table::new(), vec![]),
    };
    let named = entry.presets.names().iter().map(|&preset| toml! { preset = preset });
    let chosen = std::iter::once(Table::new()).chain(named).chain(more);
    let chosen = chosen.map(|settings| always.clone().into_iter().chain(settings).collect());
    // Presets of equal values are one variant.
    let mut seen = Vec::new();
    let is_new = |settings: &Table| {
        let mut values = entry.resolve(settings).unwrap();
        values.remove("preset");
        let is_new = !seen.contains(&values);
        seen.push(values);
        is_new
    };
    chosen.filter(is_new).collect()
}

/// Settings under which no sample passes a method's filter, or none where there is no filter: TENT, CPL, CoTTA, RMT
/// and SANTA learn from every batch, the others never. PAINT's does not hold for its entropies, whose weights are 0
/// instead.
pub(crate) fn filter_that_nothing_passes(name: &str) -> Option<Table> {
    match name {
        "paint" => Some(toml! { phi = 1.0 entropy_weight = 0.0 diversity_weight = 0.0 }),
        "eta" | "eata" | "rdumb" | "sar" => Some(toml! { e0 = 0.0 }),
        "ecotta" => Some(toml! { e0 = 0.0 regularization = 0.0 }),
        "deyo" => Some(toml! { plpd = 1.0 }),
        "vdp" => Some(toml! { threshold = 1.1 }),
        _ => None,
    }
}

/// Whether the network is deployed as the source that was given. What EcoTTA warms up lies beside it.
pub(crate) fn begins_as_source(entry: &MethodEntry, settings: &Table) -> bool {
    entry.runs_on == Networks::Convolutional
        || settings.get("warmup_images").is_none_or(|images| images.as_integer() == Some(0))
}

//! Steps computed by hand. Longer runs are held against PyTorch in `tests/golden_vit.rs`.

use paint_tensor::{Device, Tensor};

use super::*;
use crate::params::{Role, Slot};

const NORM: Role = Role::FinalNorm(Slot::Weight);

fn one(role: Role, value: f32) -> (Params, ParamId) {
    let mut params = Params::default();
    let id = params.insert("w", role, Tensor::full([1], value, &Device::cpu()).unwrap()).unwrap();
    (params, id)
}

fn gradient(id: ParamId, value: f32) -> Vec<(ParamId, Tensor)> {
    vec![(id, Tensor::full([1], value, &Device::cpu()).unwrap())]
}

fn all(rule: Rule, lr: f32) -> Optimizer {
    Optimizer::new(rule, vec![Group { select: Trainable::All, lr }])
}

/// The values of a parameter that starts at 1 after each of the given gradients.
fn trace(rule: Rule, lr: f32, gradients: &[f32]) -> Vec<f32> {
    let (mut params, id) = one(NORM, 1.0);
    let mut optimizer = all(rule, lr);
    let step = |&g: &f32| {
        optimizer.apply(&mut params, &gradient(id, g)).unwrap();
        params[id].item().unwrap()
    };
    gradients.iter().map(step).collect()
}

fn close(got: &[f32], expected: &[f64]) {
    for (got, expected) in got.iter().zip(expected) {
        assert!((f64::from(*got) - expected).abs() < 1e-6, "got {got}, expected {expected}");
    }
}

#[test]
fn plain_descent_goes_against_the_gradient() {
    close(&trace(Rule::Sgd(Sgd::default()), 0.1, &[1.0, -2.0]), &[0.9, 1.1]);
}

#[test]
fn momentum_keeps_the_velocity_and_nesterov_looks_ahead() {
    let sgd = Sgd { momentum: 0.5, ..Sgd::default() };
    // v = 1, then 0.5 + 2 = 2.5.
    close(&trace(Rule::Sgd(sgd), 0.1, &[1.0, 2.0]), &[0.9, 0.65]);
    // d = 1 + 0.5, then 2 + 0.5 * 2.5.
    close(&trace(Rule::Sgd(Sgd { nesterov: true, ..sgd }), 0.1, &[1.0, 2.0]), &[0.85, 0.525]);
}

#[test]
fn weight_decay_joins_the_gradient_in_adam_and_passes_it_by_in_adamw() {
    let decay = Adam { weight_decay: 0.5, ..Adam::default() };
    // A first step of Adam is the sign of the gradient: g = -0.25 + 0.5 > 0.
    close(&trace(Rule::Adam(decay), 0.1, &[-0.25]), &[0.9]);
    close(&trace(Rule::AdamW(decay), 0.1, &[-0.25]), &[1.05]);
    close(&trace(Rule::Sgd(Sgd { weight_decay: 0.5, ..Sgd::default() }), 0.1, &[-0.25]), &[0.975]);
}

#[test]
fn adam_follows_its_bias_corrected_moments() {
    let (lr, gradients) = (0.1, [0.5, -0.2, 0.3]);
    let (mut m, mut v, mut w) = (0.0_f64, 0.0_f64, 1.0_f64);
    let mut expected = Vec::new();
    for (i, g) in gradients.iter().enumerate() {
        let (g, t) = (f64::from(*g), (i + 1) as i32);
        m = 0.9 * m + 0.1 * g;
        v = 0.999 * v + 0.001 * g * g;
        w -= lr * (m / (1.0 - 0.9_f64.powi(t))) / ((v / (1.0 - 0.999_f64.powi(t))).sqrt() + 1e-8);
        expected.push(w);
    }
    close(&trace(Rule::Adam(Adam::default()), lr as f32, &gradients), &expected);
}

#[test]
fn adam_made_anew_takes_the_sign_of_every_gradient() {
    let fresh = trace(Rule::FreshAdam { eps: 1e-8 }, 0.1, &[0.5, -0.2, 1e-8, 0.0]);
    close(&fresh, &[0.9, 1.0, 0.95, 0.95]);
    close(&trace(Rule::Adam(Adam::default()), 0.1, &[0.5]), &[0.9]);
}

#[test]
fn groups_have_their_own_rate_and_what_no_group_covers_stays() {
    let rule = Rule::Sgd(Sgd::default());
    let groups = vec![
        Group { select: Trainable::NormAffine, lr: 0.1 },
        Group { select: Trainable::Prompt, lr: 1.0 },
    ];
    let mut optimizer = Optimizer::new(rule, groups);
    for (role, expected) in [(NORM, 0.9), (Role::Prompt, 0.0), (Role::ClsToken, 1.0)] {
        let (mut params, id) = one(role, 1.0);
        optimizer.apply(&mut params, &gradient(id, 1.0)).unwrap();
        close(&[params[id].item().unwrap()], &[expected]);
    }
}

#[test]
fn a_saved_optimizer_continues_with_the_same_bits() {
    let rule = Rule::Adam(Adam::default());
    let whole = trace(rule, 0.1, &[0.5, -0.2, 0.3]);
    let (mut params, id) = one(NORM, 1.0);
    let mut first = all(rule, 0.1);
    first.apply(&mut params, &gradient(id, 0.5)).unwrap();
    let mut second = all(rule, 0.1);
    second.load(&first.save()).unwrap();
    second.apply(&mut params, &gradient(id, -0.2)).unwrap();
    second.apply(&mut params, &gradient(id, 0.3)).unwrap();
    assert_eq!(params[id].item().unwrap().to_bits(), whole[2].to_bits());
    second.reset();
    assert!(second.save().counters.is_empty());
}

#[test]
fn a_state_without_a_count_or_a_moment_is_refused_by_name() {
    let momentum = Rule::Sgd(Sgd { momentum: 0.9, ..Sgd::default() });
    for (rule, entries) in [
        (Rule::Sgd(Sgd::default()), vec![]),
        (Rule::FreshAdam { eps: 1e-8 }, vec![]),
        (momentum, vec!["w/step", "w/first"]),
        (Rule::Adam(Adam::default()), vec!["w/step", "w/first", "w/second"]),
    ] {
        let (mut params, id) = one(NORM, 1.0);
        let mut optimizer = all(rule, 0.1);
        optimizer.apply(&mut params, &gradient(id, 0.5)).unwrap();
        let whole = optimizer.save();
        optimizer.load(&whole).unwrap();
        for missing in entries {
            let mut damaged = whole.clone();
            damaged.counters.remove(missing);
            damaged.tensors.remove(missing);
            let error = optimizer.load(&damaged).unwrap_err().to_string();
            assert!(error.contains(&format!("{missing:?}")), "{error}");
            assert_eq!(optimizer.save().tensors.len(), whole.tensors.len());
        }
    }
}

/// Gradients of `Σ c·w` at the values the parameters have now.
fn pull(params: &Params, c: f32) -> Gradients {
    let mut loss: Option<Tensor> = None;
    for param in params.iter() {
        let term = param.tensor().scale(c).unwrap().sum_all().unwrap();
        loss = Some(loss.map_or(term.clone(), |loss| loss.add(&term).unwrap()));
    }
    loss.unwrap().backward().unwrap()
}

#[test]
fn sam_climbs_by_rho_and_descends_from_where_it_began() {
    let (mut params, id) = one(NORM, 1.0);
    params.insert("v", NORM, Tensor::full([1], 2.0, &Device::cpu()).unwrap()).unwrap();
    params.track(&Trainable::All);
    let mut sam = Sam::new(0.05, all(Rule::Sgd(Sgd::default()), 0.1));
    let gradients = pull(&params, 3.0);
    sam.ascend(&mut [&mut params], &gradients).unwrap();
    // The direction is (1, 1)/√2 whatever the factor 3.
    close(&[params[id].item().unwrap()], &[1.0 + 0.05 / 2_f64.sqrt()]);
    let gradients = pull(&params, 2.0);
    sam.descend(&mut [&mut params], &gradients).unwrap();
    close(&[params[id].item().unwrap()], &[0.8]);
    assert!(sam.descend(&mut [&mut params], &gradients).is_err());
}

//! What holds the kept prompt: pixels that earlier domains were sensitive to stay close to where those domains left
//! them.

use paint_nn::state::State;
use paint_tensor::Tensor;

use crate::Result;

/// `Ω` and `δ*`, and what the current domain adds to them when it ends.
#[derive(Debug, Clone)]
pub(super) struct Homeostasis {
    /// `Ω`, `[3, H, W]`.
    importance: Tensor,
    /// `δ*`, `[3, H, W]`.
    anchor: Tensor,
    /// `Σ_t g²` over the steps of the domain, `[3, H, W]`.
    squares: Tensor,
}

impl Homeostasis {
    /// Holds nothing; `prompt` gives the shape.
    pub(super) fn new(prompt: &Tensor) -> Result<Self> {
        let zeros = Tensor::zeros(prompt.shape(), prompt.device())?;
        Ok(Self { importance: zeros.clone(), anchor: zeros.clone(), squares: zeros })
    }

    /// Adds the gradient of a step at the prompt.
    pub(super) fn observe(&mut self, gradient: &Tensor) -> Result<()> {
        self.squares = self.squares.add(&gradient.mul(gradient)?)?;
        Ok(())
    }

    /// Ends a domain. What it adds to `Ω` has mean 1, so that a domain with many or large steps weighs no more than
    /// others.
    pub(super) fn consolidate(&mut self, prompt: &Tensor) -> Result<()> {
        let mean = self.squares.mean_all()?.item()?;
        if mean > 0.0 {
            self.importance = self.importance.add(&self.squares.scale(1.0 / mean)?)?;
        }
        self.squares = Tensor::zeros(prompt.shape(), prompt.device())?;
        self.anchor = prompt.detach();
        Ok(())
    }

    /// `Σ_j Ω_j (δ − δ*)_j²`.  → `[]`
    pub(super) fn penalty(&self, prompt: &Tensor) -> Result<Tensor> {
        let moved = prompt.sub(&self.anchor)?;
        Ok(moved.mul(&moved)?.mul(&self.importance)?.sum_all()?)
    }

    /// All three tensors.
    pub(super) fn save(&self) -> State {
        let mut state = State::default();
        for (name, tensor) in
            [("importance", &self.importance), ("anchor", &self.anchor), ("squares", &self.squares)]
        {
            state.tensors.insert(name.into(), tensor.clone());
        }
        state
    }

    /// Continues from what [`Homeostasis::save`] gave.
    pub(super) fn load(&mut self, state: &State) -> Result<()> {
        self.importance = state.tensor("importance")?.clone();
        self.anchor = state.tensor("anchor")?.clone();
        self.squares = state.tensor("squares")?.clone();
        Ok(())
    }
}

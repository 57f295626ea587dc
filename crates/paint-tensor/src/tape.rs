//! Reverse mode.
//!
//! A tracked tensor carries a [`Node`]; a node carries the rule of the operation that made it and links to the nodes
//! below, never to their data. A rule keeps the activations it reads and no others, so an activation whose consumers
//! do not need it is freed as soon as the forward pass lets go of it. The backward pass takes each rule out of its
//! node and drops it when it has run: activations are gone as soon as they are read, whoever still holds the loss or
//! the logits.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::{Error, Result, Tensor};

/// The backward rule of one operation.
pub(crate) trait Rule: Send + Sync {
    /// Sends the gradient of each tracked input to `sink`, given the gradient of the output.
    fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()>;
}

/// A place in the recorded computation. Ids grow with time, so an output always has a larger id than its inputs.
pub(crate) struct Node {
    id: u64,
    kind: Kind,
}

enum Kind {
    /// Where gradients end.
    Variable,
    /// `None` once a backward pass has used it.
    Result(Mutex<Option<Box<dyn Rule>>>),
}

/// The node of an input, if the input is tracked.
pub(crate) type Link = Option<Arc<Node>>;

fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Node {
    pub(crate) fn leaf() -> Arc<Self> {
        Arc::new(Self { id: next_id(), kind: Kind::Variable })
    }

    pub(crate) fn of(rule: impl Rule + 'static) -> Arc<Self> {
        Arc::new(Self { id: next_id(), kind: Kind::Result(Mutex::new(Some(Box::new(rule)))) })
    }
}

/// Collects gradients while a backward pass runs.
#[derive(Default)]
pub(crate) struct Sink {
    /// Ordered by id: the largest is complete, because everything that could still add to it has been visited.
    pending: BTreeMap<u64, (Arc<Node>, Tensor)>,
}

impl Sink {
    /// Adds `grad` to the gradient of the linked node.
    pub(crate) fn add(&mut self, node: &Arc<Node>, grad: Tensor) -> Result<()> {
        let sum = match self.pending.remove(&node.id) {
            Some((_, earlier)) => earlier.accumulate(&grad)?,
            None => grad,
        };
        self.pending.insert(node.id, (Arc::clone(node), sum));
        Ok(())
    }

    /// Takes out what has been added to the linked node so far, for a rule that sums while it computes.
    pub(crate) fn earlier(&mut self, link: &Link) -> Option<Tensor> {
        let (_, earlier) = self.pending.remove(&link.as_ref()?.id)?;
        Some(earlier)
    }

    /// Adds the gradient that `compute` returns, if the input is tracked at all.
    pub(crate) fn add_to(
        &mut self,
        link: &Link,
        compute: impl FnOnce() -> Result<Tensor>,
    ) -> Result<()> {
        match link {
            Some(node) => self.add(node, compute()?),
            None => Ok(()),
        }
    }
}

/// The gradients of one backward pass, one per variable it reached.
#[derive(Default)]
pub struct Gradients(HashMap<u64, Tensor>);

impl Gradients {
    /// The gradient of a variable; `None` if the loss does not depend on it.
    pub fn get(&self, variable: &Tensor) -> Option<&Tensor> {
        self.0.get(&variable.link().as_ref()?.id)
    }

    /// Sets the gradient of a variable that was computed elsewhere.
    pub fn insert(&mut self, variable: &Tensor, gradient: Tensor) {
        if let Some(node) = variable.link() {
            self.0.insert(node.id, gradient);
        }
    }

    /// Adds the gradients of a second pass. Two losses can then be differentiated one after the other, so that their
    /// activations are never in memory together.
    pub fn accumulate(&mut self, other: Self) -> Result<()> {
        // The order of the variables does not matter: each sum has two terms.
        #[expect(clippy::iter_over_hash_type, reason = "every entry is independent of the others")]
        for (id, grad) in other.0 {
            let sum = match self.0.remove(&id) {
                Some(earlier) => earlier.accumulate(&grad)?,
                None => grad,
            };
            self.0.insert(id, sum);
        }
        Ok(())
    }
}

impl Tensor {
    /// Runs reverse mode from this tensor, which must have one element. What the operations saved for it is freed on
    /// the way, so a second pass over the same operations is an error.
    pub fn backward(&self) -> Result<Gradients> {
        let start = match self.link() {
            Some(node) if self.elem_count() == 1 => node,
            link => {
                return Err(Error::BackwardStart {
                    shape: self.shape().to_vec(),
                    tracked: link.is_some(),
                });
            }
        };
        let mut sink = Sink::default();
        sink.add(start, Self::full(self.shape(), 1.0, self.device())?)?;
        let mut gradients = Gradients::default();
        while let Some((id, (node, grad))) = sink.pending.pop_last() {
            match &node.kind {
                Kind::Variable => {
                    gradients.0.insert(id, grad);
                }
                Kind::Result(rule) => {
                    let rule = rule.lock().unwrap_or_else(PoisonError::into_inner).take();
                    rule.ok_or(Error::BackwardTwice)?.backward(grad, &mut sink)?;
                }
            }
        }
        Ok(gradients)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    fn vector(values: &[f32]) -> Tensor {
        Tensor::from_vec(values.to_vec(), [values.len()], &Device::cpu()).unwrap()
    }

    #[test]
    fn a_value_used_twice_sums_both_gradients() {
        let x = vector(&[2.0, -3.0]).variable();
        let loss = x.mul(&x).unwrap().add(&x).unwrap().sum_all().unwrap();
        assert_eq!(loss.backward().unwrap().get(&x).unwrap().to_vec().unwrap(), [5.0, -5.0]);
    }

    #[test]
    fn frozen_inputs_record_nothing() {
        let x = vector(&[1.0, 2.0]);
        assert!(!x.mul(&x).unwrap().requires_grad());
        assert!(matches!(
            x.sum_all().unwrap().backward(),
            Err(Error::BackwardStart { tracked: false, .. })
        ));
    }

    #[test]
    fn backward_starts_from_one_element_only() {
        let x = vector(&[1.0, 2.0]).variable();
        assert!(matches!(
            x.exp().unwrap().backward(),
            Err(Error::BackwardStart { tracked: true, .. })
        ));
    }

    #[test]
    fn two_passes_accumulate_to_the_gradient_of_the_sum() {
        let x = vector(&[0.5, 1.5]).variable();
        let losses =
            || (x.exp().unwrap().sum_all().unwrap(), x.mul(&x).unwrap().sum_all().unwrap());
        let (a, b) = losses();
        let mut twice = a.backward().unwrap();
        twice.accumulate(b.backward().unwrap()).unwrap();
        let (a, b) = losses();
        let once = a.add(&b).unwrap().backward().unwrap();
        assert_eq!(
            twice.get(&x).unwrap().to_vec().unwrap(),
            once.get(&x).unwrap().to_vec().unwrap()
        );
    }

    #[test]
    fn a_detached_path_passes_no_gradient() {
        let x = vector(&[3.0]).variable();
        let loss = x.detach().mul(&x).unwrap().sum_all().unwrap();
        assert_eq!(loss.backward().unwrap().get(&x).unwrap().to_vec().unwrap(), [3.0]);
    }

    #[test]
    fn a_second_pass_over_the_same_operations_is_refused() {
        let x = vector(&[3.0]).variable();
        let y = x.exp().unwrap();
        let (a, b) = (y.sum_all().unwrap(), y.mul(&y).unwrap().sum_all().unwrap());
        a.backward().unwrap();
        assert!(matches!(b.backward(), Err(Error::BackwardTwice)));
    }

    #[test]
    fn backward_frees_what_the_forward_kept() {
        struct Holder(Arc<()>, Link);
        impl Rule for Holder {
            fn backward(&self, grad: Tensor, sink: &mut Sink) -> Result<()> {
                assert_eq!(Arc::strong_count(&self.0), 2);
                sink.add_to(&self.1, || Ok(grad))
            }
        }
        let x = vector(&[1.0, 2.0]).variable();
        let kept = Arc::new(());
        let storage = x.storage().clone();
        let y = x
            .derived(vec![2], storage, &[x.link()], || Holder(Arc::clone(&kept), x.link().clone()));
        let loss = y.sum_all().unwrap();
        loss.backward().unwrap();
        assert_eq!(Arc::strong_count(&kept), 1);
        drop((y, loss));
    }
}

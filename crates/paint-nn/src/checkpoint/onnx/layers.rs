//! Weights that lost their names, found by the layers that use them.
//!
//! Exporters compute what does not depend on the images: the transposed weight of a linear layer, a class token for
//! every image of the batch. The result has no name. The graph still says which layer multiplies by it, by the bias
//! that is added or by the module that a node comes from.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use paint_files::{Fault, abridged};

use super::super::WAY_OUT;
use super::graph::{Constants, Resolved};
use super::proto::Node;
use super::scope::{inside, is_folded_bias, is_parameter, module_of};

/// How an array is made of a constant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Same,
    Transposed,
    /// One axis is left of many of length one.
    Flat,
    /// The same rows for every image of a batch.
    FirstImage,
}

/// Parameters by the constant that each is made of.
#[derive(Debug, Default)]
pub(super) struct Derived {
    pub rows: BTreeMap<String, (String, Change)>,
    /// Constants that are in order if they are zero, and what is wrong otherwise.
    pub doubtful: BTreeMap<String, Fault>,
}

impl Derived {
    fn add(&mut self, name: String, constant: &str, change: Change) -> Result<(), Fault> {
        let row = (constant.to_owned(), change);
        match self.rows.entry(name) {
            Entry::Vacant(place) => _ = place.insert(row),
            Entry::Occupied(other) if *other.get() == row => {}
            Entry::Occupied(other) => return Err(Fault::Duplicate { name: abridged(other.key()) }),
        }
        Ok(())
    }

    /// Goes through the nodes of a graph.
    pub(super) fn of(nodes: &[Node], constants: &Constants) -> Result<Self, Fault> {
        let mut sums: BTreeMap<&str, &Node> = BTreeMap::new();
        for node in nodes.iter().filter(|node| node.operation == "Add") {
            sums.extend(node.inputs.iter().map(|input| (input.as_str(), node)));
        }
        let mut derived = Self::default();
        for node in nodes {
            match node.operation.as_str() {
                "MatMul" => derived.product(node, &sums, constants)?,
                "Gemm" => derived.gemm(node, constants)?,
                "Conv" => derived.convolution(node, constants)?,
                "LayerNormalization" => derived.shared(node, &["weight", "bias"], constants)?,
                "BatchNormalization" => {
                    let leaves = ["weight", "bias", "running_mean", "running_var"];
                    derived.shared(node, &leaves, constants)?;
                }
                "Mul" => derived.scale(node, constants)?,
                "Concat" => derived.class_token(node, constants)?,
                _ => {}
            }
        }
        Ok(derived)
    }

    /// `x W + b` of a linear layer, whose weight is the transpose of `W`.
    fn product(
        &mut self,
        node: &Node,
        sums: &BTreeMap<&str, &Node>,
        constants: &Constants,
    ) -> Result<(), Fault> {
        let Some(weight) = constants.resolve(node.inputs.get(1)).filter(|w| w.rank() == 2) else {
            return Ok(());
        };
        let output = node.outputs.first().map_or("", String::as_str);
        let bias = sums.get(output).and_then(|sum| {
            let operand = sum.inputs.iter().find(|input| *input != output)?;
            constants.resolve(Some(operand)).filter(|bias| bias.rank() == 1)
        });
        self.linear(node, &weight, bias.as_ref(), !weight.transposed)
    }

    /// `alpha x W + beta b`; `W` may be stored as the weight itself.
    fn gemm(&mut self, node: &Node, constants: &Constants) -> Result<(), Fault> {
        let float = |name| node.attribute(name).and_then(|a| a.float).unwrap_or(1.0);
        let int = |name| node.attribute(name).and_then(|a| a.int).unwrap_or(0);
        let Some(weight) = constants.resolve(node.inputs.get(1)).filter(|w| w.rank() == 2) else {
            return Ok(());
        };
        if float("alpha") != 1.0 || float("beta") != 1.0 || int("transA") != 0 {
            return Ok(());
        }
        let bias = constants.resolve(node.inputs.get(2));
        self.linear(node, &weight, bias.as_ref(), weight.transposed == (int("transB") != 0))
    }

    fn linear(
        &mut self,
        node: &Node,
        weight: &Resolved<'_>,
        bias: Option<&Resolved<'_>>,
        transposed: bool,
    ) -> Result<(), Fault> {
        let module = module_of(node);
        // One array may stand for all equal ones, so a bias counts only inside the module of the layer.
        let of_bias = bias.and_then(|bias| weight_of(bias.name)).filter(|name| {
            module.as_deref().is_none_or(|module| module.is_empty() || is_inside(name, module))
        });
        let name = match (of_bias, module) {
            (Some(name), _) => name,
            (None, Some(module)) if !is_parameter(weight.name) || bias.is_some() => {
                if module.is_empty() {
                    return Ok(());
                }
                if let Some(bias) = bias.filter(|bias| is_parameter(bias.name)) {
                    self.add(inside(&module, "bias"), bias.constant, Change::Same)?;
                }
                inside(&module, "weight")
            }
            _ => return Ok(()),
        };
        let change = if transposed { Change::Transposed } else { Change::Same };
        self.add(name, weight.constant, change)
    }

    /// The arrays of a layer under its own name, where an equal array of another layer stands for them.
    fn shared(&mut self, node: &Node, leaves: &[&str], constants: &Constants) -> Result<(), Fault> {
        let Some(module) = module_of(node).filter(|module| !module.is_empty()) else {
            return Ok(());
        };
        for (leaf, input) in leaves.iter().zip(node.inputs.iter().skip(1)) {
            let name = inside(&module, leaf);
            let operand = constants.resolve(Some(input)).filter(|found| is_parameter(found.name));
            if let Some(operand) = operand.filter(|operand| !is_inside(operand.name, &module)) {
                self.add(name, operand.constant, Change::Same)?;
            }
        }
        Ok(())
    }

    /// Exporters multiply the factors of a batch norm into the convolution before it, and add a bias. The bias of a
    /// convolution that has none may be written as zeros.
    fn convolution(&mut self, node: &Node, constants: &Constants) -> Result<(), Fault> {
        let is_made_up = |found: &Resolved<'_>| !is_parameter(found.name);
        let operand = |i: usize| constants.resolve(node.inputs.get(i)).filter(is_made_up);
        if let Some(weight) = operand(1) {
            return Err(folded(weight.name));
        }
        if let Some(bias) = operand(2) {
            self.doubtful.insert(bias.constant.to_owned(), folded(bias.name));
        }
        self.shared(node, &["weight", "bias"], constants)
    }

    /// timm's ConvNeXt turns `gamma` to the layout of its images before it multiplies.
    fn scale(&mut self, node: &Node, constants: &Constants) -> Result<(), Fault> {
        let Some(module) = module_of(node).filter(|module| !module.is_empty()) else {
            return Ok(());
        };
        let mut operands = node.inputs.iter().filter_map(|input| constants.resolve(Some(input)));
        let is_scale = |found: &Resolved<'_>| {
            !is_parameter(found.name)
                && matches!(found.shape[..], [1, channels, 1, 1] if channels > 1)
        };
        match operands.find(is_scale) {
            Some(found) => self.add(inside(&module, "gamma"), found.constant, Change::Flat),
            None => Ok(()),
        }
    }

    /// The first of the tokens that are put together.
    fn class_token(&mut self, node: &Node, constants: &Constants) -> Result<(), Fault> {
        let first = constants.resolve(node.inputs.first());
        let is_token = |found: &Resolved<'_>| {
            !is_parameter(found.name) && matches!(found.shape[..], [images, 1, _] if images > 0)
        };
        let token = first.filter(is_token);
        let module = module_of(node);
        if let (Some(found), Some(module), Some(leaf)) = (token, module, constants.class_token) {
            self.add(inside(&module, leaf), found.constant, Change::FirstImage)?;
        }
        Ok(())
    }
}

fn is_inside(name: &str, module: &str) -> bool {
    name.strip_prefix(module).is_some_and(|rest| rest.starts_with('.'))
}

/// `blocks.0.attn.qkv.weight` of `blocks.0.attn.qkv.bias`, and `in_proj_weight` of `in_proj_bias`.
fn weight_of(bias: &str) -> Option<String> {
    let stem = bias.strip_suffix("bias").filter(|_| is_parameter(bias))?;
    stem.ends_with(['.', '_']).then(|| format!("{stem}weight"))
}

fn folded(name: &str) -> Fault {
    let without = if is_folded_bias(name) {
        "optimize=False"
    } else {
        "training=torch.onnx.TrainingMode.PRESERVE and do_constant_folding=False"
    };
    let expected = format!(
        "a parameter (batch norms were folded into convolutions: export with {without}, or {WAY_OUT})"
    );
    Fault::invalid("Conv", expected, format!("{name:?}"))
}

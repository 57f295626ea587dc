//! The arrays of a graph that do not depend on its input, by the names under which nodes use them.

use std::collections::BTreeMap;

use paint_files::{Budget, Fault, abridged};

use super::proto::{Graph, Node};
use super::scope::is_parameter;
use super::tensor::Tensor;

/// What the class token is called, by the weight of the patch embedding.
const CLASS_TOKENS: [(&str, &str); 3] = [
    ("patch_embed.proj.weight", "cls_token"),
    ("embeddings.patch_embeddings.projection.weight", "cls_token"),
    ("conv_proj.weight", "class_token"),
];

/// Initialisers and `Constant` nodes in the order of the file, and other names that they pass on to.
#[derive(Debug, Default)]
pub(super) struct Constants {
    pub tensors: Vec<Tensor>,
    index: BTreeMap<String, usize>,
    /// The tensor that a name stands for, and whether transposed.
    aliases: BTreeMap<String, (usize, bool)>,
    /// What the class token of this network is called.
    pub class_token: Option<&'static str>,
}

/// An operand that does not depend on the images.
#[derive(Debug)]
pub(super) struct Resolved<'a> {
    /// The name of a parameter, if the operand or what it stands for has one.
    pub name: &'a str,
    /// The tensor that holds it.
    pub constant: &'a str,
    /// Whether the operand is its transpose.
    pub transposed: bool,
    /// The shape of the tensor.
    pub shape: Vec<usize>,
}

impl Resolved<'_> {
    pub(super) fn rank(&self) -> usize {
        self.shape.len()
    }
}

impl Constants {
    /// Takes the arrays out of a graph.
    pub(super) fn of(graph: &mut Graph, budget: &mut Budget) -> Result<Self, Fault> {
        let mut constants = Self::default();
        for tensor in std::mem::take(&mut graph.initializers) {
            constants.insert(tensor)?;
        }
        for node in &mut graph.nodes {
            let Some(output) = node.outputs.first().cloned() else { continue };
            if node.operation == "Constant" {
                if let Some(mut tensor) = node.take_value() {
                    tensor.name = output;
                    constants.insert(tensor)?;
                }
            } else if let Some(alias) = constants.passed_on(node) {
                budget.charge("node", 2 * size_of::<(String, usize, bool)>() as u64)?;
                constants.aliases.insert(output, alias);
            }
        }
        let has = |end: &str| constants.index.keys().any(|name| name.ends_with(end));
        constants.class_token =
            CLASS_TOKENS.iter().find(|(patches, _)| has(patches)).map(|(_, token)| *token);
        Ok(constants)
    }

    fn insert(&mut self, tensor: Tensor) -> Result<(), Fault> {
        if self.index.insert(tensor.name.clone(), self.tensors.len()).is_some() {
            return Err(Fault::Duplicate { name: abridged(&tensor.name) });
        }
        self.tensors.push(tensor);
        Ok(())
    }

    /// The array that a node hands on as it is, or transposed.
    fn passed_on(&self, node: &Node) -> Option<(usize, bool)> {
        let (at, transposed) = self.find(node.inputs.first()?)?;
        match node.operation.as_str() {
            "Identity" | "Cast" => Some((at, transposed)),
            // Without `perm` the axes are reversed.
            "Transpose" if self.tensors[at].shape().ok()?.len() == 2 => {
                let swaps = node.attribute("perm").is_none_or(|perm| perm.ints == [1, 0]);
                Some((at, transposed ^ swaps))
            }
            _ => None,
        }
    }

    fn find(&self, name: &str) -> Option<(usize, bool)> {
        let own = self.index.get(name).map(|&at| (at, false));
        own.or_else(|| self.aliases.get(name).copied())
    }

    /// The tensor of that name.
    pub(super) fn get(&self, name: &str) -> Option<&Tensor> {
        self.index.get(name).map(|&at| &self.tensors[at])
    }

    /// The floating-point array that an operand stands for.
    pub(super) fn resolve<'a>(&'a self, operand: Option<&'a String>) -> Option<Resolved<'a>> {
        let operand = operand?;
        let (at, transposed) = self.find(operand)?;
        let tensor = &self.tensors[at];
        let name = if is_parameter(operand) { operand } else { &tensor.name };
        let shape = tensor.is_float().then(|| tensor.shape().ok())??;
        Some(Resolved { name, constant: &tensor.name, transposed, shape })
    }

    /// Parameters that are another name of a tensor: exporters keep equal ones once.
    pub(super) fn copies(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        let copies =
            self.aliases.iter().filter(|(name, (_, turned))| !turned && is_parameter(name));
        copies.map(|(name, (at, _))| (name.as_str(), &self.tensors[*at]))
    }
}

//! What the nodes of a graph say beside its weights.

use std::collections::BTreeSet;

use paint_files::Fault;

use super::super::WAY_OUT;
use super::super::traits::{Activation, Traits};
use super::graph::Constants;
use super::proto::{Graph, Node};

/// The epsilon that ONNX has for a layer norm that states none.
const EPSILON: f32 = 1e-5;

/// The epsilon of all layer norms and the kind of all GELUs, where they agree.
pub(super) fn traits(nodes: &[Node]) -> Traits {
    let all = |operation| nodes.iter().filter(move |node| node.operation == operation);
    let epsilon = |node: &Node| node.attribute("epsilon").and_then(|a| a.float).unwrap_or(EPSILON);
    let activation =
        |node: &Node| match node.attribute("approximate").and_then(|a| a.text.as_deref()) {
            Some("tanh") => Activation::GeluTanh,
            _ => Activation::Gelu,
        };
    Traits {
        layer_norm_eps: agreed(all("LayerNormalization").map(epsilon)).filter(|eps| *eps > 0.0),
        activation: agreed(all("Gelu").map(activation)),
        global_pool: None,
    }
}

fn agreed<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

/// Refuses graphs that compute something which weights alone do not show.
pub(super) fn check(graph: &Graph, constants: &Constants) -> Result<(), Fault> {
    let is_image = |name: &&String| constants.get(name).is_none();
    let mut images: BTreeSet<&String> = graph.inputs.iter().filter(is_image).collect();
    for node in &graph.nodes {
        let reads_images = node.inputs.iter().any(|input| images.contains(input));
        match node.operation.as_str() {
            "DequantizeLinear" => {
                let expected = format!("weights that are not quantised (else {WAY_OUT})");
                return Err(Fault::invalid("graph", expected, "DequantizeLinear"));
            }
            "Cast" | "Identity" | "Transpose" if reads_images => images.extend(&node.outputs),
            "Add" | "Div" | "Mul" | "Sub" if reads_images => {
                let expected = format!(
                    "images to enter as they are (preprocessing belongs beside the weights: export the network alone, \
                     or {WAY_OUT})"
                );
                let found = format!("{} of the input, node {:?}", node.operation, node.name);
                return Err(Fault::invalid("graph", expected, found));
            }
            _ => {}
        }
    }
    Ok(())
}

//! The messages of an ONNX file, as far as weights are concerned: model, graph, node, attribute, tensor.

use paint_files::{Budget, Fault, Source};

use super::tensor::Tensor;
use super::wire::Fields;

/// The operations that say something about weights; nodes of others are not kept.
const OPERATIONS: [&str; 16] = [
    "Add",
    "BatchNormalization",
    "Cast",
    "Concat",
    "Constant",
    "Conv",
    "DequantizeLinear",
    "Div",
    "Gelu",
    "Gemm",
    "Identity",
    "LayerNormalization",
    "MatMul",
    "Mul",
    "Sub",
    "Transpose",
];

/// Where PyTorch's newer exporter keeps the modules that a node comes from.
const SCOPES: &str = "pkg.torch.onnx.name_scopes";

/// A graph and who wrote it.
#[derive(Debug, Default)]
pub(super) struct Model {
    pub producer: String,
    pub graph: Graph,
}

impl Model {
    pub(super) fn read(source: &Source, budget: &mut Budget) -> Result<Self, Fault> {
        let mut model = Self::default();
        let (mut graph, mut has_operators) = (None, false);
        let mut fields = Fields::new(source.clone());
        while let Some((number, value)) = fields.next()? {
            match number {
                2 => model.producer = value.text("producer_name", budget)?,
                3 => {
                    let version = value.text("producer_version", budget)?;
                    model.producer = format!("{} {version}", model.producer);
                }
                7 if graph.is_some() => return Err(Fault::Duplicate { name: "graph".to_owned() }),
                7 => graph = Some(Graph::read(value.message("graph")?, budget)?),
                8 => has_operators = true,
                _ => {}
            }
        }
        let missing = |name: &str| Fault::Missing { name: name.to_owned() };
        model.graph = graph.ok_or_else(|| missing("graph"))?;
        // Comes after the graph, so its absence shows a file that was cut.
        if has_operators { Ok(model) } else { Err(missing("opset_import")) }
    }
}

#[derive(Debug, Default)]
pub(super) struct Graph {
    pub nodes: Vec<Node>,
    pub initializers: Vec<Tensor>,
    /// What the graph is called with; older files list initialisers among them.
    pub inputs: Vec<String>,
}

impl Graph {
    fn read(mut fields: Fields, budget: &mut Budget) -> Result<Self, Fault> {
        let mut graph = Self::default();
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => graph.nodes.extend(Node::read(value.message("node")?, budget)?),
                5 => {
                    budget.charge("initializer", 2 * size_of::<Tensor>() as u64)?;
                    graph.initializers.push(Tensor::parse(value.message("initializer")?, budget)?);
                }
                11 => {
                    let mut input = value.message("input")?;
                    while let Some((number, value)) = input.next()? {
                        if number == 1 {
                            graph.inputs.push(value.text("name of an input", budget)?);
                        }
                    }
                }
                15 => {
                    return Err(Fault::Refused {
                        what: "field",
                        name: "sparse_initializer".to_owned(),
                        why: "sparse arrays are not read",
                    });
                }
                _ => {}
            }
        }
        Ok(graph)
    }
}

#[derive(Debug, Default)]
pub(super) struct Node {
    pub operation: String,
    pub name: String,
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    /// The modules around it as PyTorch's newer exporter writes them, outermost first.
    pub scopes: Option<String>,
    attributes: Vec<Attribute>,
}

impl Node {
    /// The node, if its operation matters.
    fn read(mut fields: Fields, budget: &mut Budget) -> Result<Option<Self>, Fault> {
        let mut node = Self::default();
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => node.inputs.push(value.text("input of a node", budget)?),
                2 => node.outputs.push(value.text("output of a node", budget)?),
                3 => node.name = value.text("name of a node", budget)?,
                4 => node.operation = value.text("op_type", budget)?,
                5 => {
                    budget.charge("attribute", 2 * size_of::<Attribute>() as u64)?;
                    node.attributes.push(Attribute::read(value.message("attribute")?, budget)?);
                }
                9 => {
                    let (key, value) = entry(value.message("metadata_props")?)?;
                    if key == SCOPES {
                        budget.charge(SCOPES, value.len() as u64)?;
                        node.scopes = Some(value);
                    }
                }
                _ => {}
            }
        }
        if !OPERATIONS.contains(&node.operation.as_str()) {
            return Ok(None);
        }
        budget.charge("node", 2 * size_of::<Self>() as u64)?;
        Ok(Some(node))
    }

    pub(super) fn attribute(&self, name: &str) -> Option<&Attribute> {
        self.attributes.iter().find(|attribute| attribute.name == name)
    }

    /// Takes the array of a `Constant` out.
    pub(super) fn take_value(&mut self) -> Option<Tensor> {
        let is_value = |attribute: &&mut Attribute| attribute.name == "value";
        self.attributes.iter_mut().find(is_value)?.tensor.take()
    }
}

#[derive(Debug, Default)]
pub(super) struct Attribute {
    name: String,
    pub float: Option<f32>,
    pub int: Option<i64>,
    pub text: Option<String>,
    pub ints: Vec<i64>,
    tensor: Option<Tensor>,
}

impl Attribute {
    fn read(mut fields: Fields, budget: &mut Budget) -> Result<Self, Fault> {
        let mut attribute = Self::default();
        while let Some((number, value)) = fields.next()? {
            match number {
                1 => attribute.name = value.text("name of an attribute", budget)?,
                2 => attribute.float = Some(value.float("number of an attribute")?),
                3 => attribute.int = Some(value.int("number of an attribute")?),
                4 => {
                    let bytes = value.bytes("text of an attribute")?;
                    budget.charge("attribute", bytes.len())?;
                    attribute.text = String::from_utf8(bytes.read_all()?).ok();
                }
                5 => attribute.tensor = Some(Tensor::parse(value.message("tensor")?, budget)?),
                8 => value.ints(&mut attribute.ints, "numbers of an attribute", budget)?,
                _ => {}
            }
        }
        Ok(attribute)
    }
}

/// A key and its value, of which neither is kept unless the caller does.
pub(super) fn entry(mut fields: Fields) -> Result<(String, String), Fault> {
    /// Stack traces of exporters are the longest.
    const LARGEST: u64 = 1 << 20;
    let (mut key, mut text) = (String::new(), String::new());
    while let Some((number, value)) = fields.next()? {
        match number {
            1 => key = value.text("key", &mut Budget::of(LARGEST))?,
            2 => text = value.text("value", &mut Budget::of(LARGEST))?,
            _ => {}
        }
    }
    Ok((key, text))
}

//! Writes the messages of an ONNX file, right or wrong.

pub(crate) fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A field with a whole number.
pub(crate) fn int(field: u64, number: i64) -> Vec<u8> {
    [varint(field << 3), varint(number.cast_unsigned())].concat()
}

/// A field with a length: text, bytes or a message.
pub(crate) fn bytes(field: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [varint(field << 3 | 2), varint(content.len() as u64), content.to_vec()].concat()
}

/// The header of a float array.
pub(crate) fn header(name: &str, dims: &[i64]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|&n| int(1, n)).collect();
    [dims, int(2, 1), bytes(8, name)].concat()
}

/// A float array with its elements.
pub(crate) fn tensor(name: &str, dims: &[i64], data: &[f32]) -> Vec<u8> {
    let raw: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
    [header(name, dims), bytes(9, raw)].concat()
}

/// A node; `more` are fields with attributes or metadata.
pub(crate) fn node(
    operation: &str,
    name: &str,
    inputs: &[&str],
    output: &str,
    more: &[u8],
) -> Vec<u8> {
    let inputs: Vec<u8> = inputs.iter().flat_map(|input| bytes(1, input)).collect();
    [inputs, bytes(2, output), bytes(3, name), bytes(4, operation), more.to_vec()].concat()
}

/// A whole file.
pub(crate) fn model(nodes: &[Vec<u8>], tensors: &[Vec<u8>]) -> Vec<u8> {
    let nodes: Vec<u8> = nodes.iter().flat_map(|node| bytes(1, node)).collect();
    let tensors: Vec<u8> = tensors.iter().flat_map(|tensor| bytes(5, tensor)).collect();
    let input = bytes(11, bytes(1, "images"));
    file(&[nodes, tensors, input].concat())
}

/// A whole file with this graph.
pub(crate) fn file(graph: &[u8]) -> Vec<u8> {
    [int(1, 9), bytes(2, "tests"), bytes(7, graph), bytes(8, int(2, 20))].concat()
}

//! Activation maps on a page.

use std::fmt::Write as _;

use paint_data::{Image, Sample, SampleRef};

use super::embed::{escape, png_uri};
use crate::Result;
use crate::cam::ActivationMap;
use crate::report::class_name;
use paint_run::Experiment;

/// One image, and where each method looked.
#[derive(Debug, Clone)]
pub struct CamShot {
    /// The domain it comes from.
    pub domain: String,
    /// As the models saw it.
    pub image: Image,
    /// Its class, where known.
    pub truth: Option<String>,
    /// By method.
    pub maps: Vec<CamMap>,
}

impl CamShot {
    /// An image of an experiment that nobody has looked at yet.
    pub fn new(experiment: &Experiment, at: SampleRef, sample: Sample) -> Self {
        let info = experiment.dataset.info();
        Self {
            domain: experiment.dataset.domains()[at.domain].name.clone(),
            image: sample.image,
            truth: sample.label.map(|label| class_name(info, label)),
            maps: Vec::new(),
        }
    }
}

/// Where one method looked.
#[derive(Debug, Clone)]
pub struct CamMap {
    /// The method.
    pub label: String,
    /// The map.
    pub map: ActivationMap,
    /// The class it predicted.
    pub said: String,
}

/// A page of maps.
pub fn cam_page(what: &str, shots: &[CamShot]) -> Result<String> {
    let style = concat!(include_str!("palette.css"), include_str!("bench.css"));
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Activation maps</title><style>{style}</style></head><body><header><div><h1>Activation maps</h1><p>{}</p></div>\
         <button id=\"theme\" title=\"dark or light\">◐</button></header>{}<script>{}</script></body></html>\n",
        escape(what),
        cam_table(shots)?,
        include_str!("bench.js")
    ))
}

/// A row for each image: the image, then the map of each method.
pub(super) fn cam_table(shots: &[CamShot]) -> Result<String> {
    let mut html = String::from("<div class=\"wide\"><table class=\"cams\"><tr><th>image</th>");
    for map in shots.first().iter().flat_map(|shot| &shot.maps) {
        let _ = write!(html, "<th>{}</th>", escape(&map.label));
    }
    html.push_str("</tr>");
    for shot in shots {
        let truth = escape(shot.truth.as_deref().unwrap_or(""));
        let (image, domain) = (img(&shot.image, "image"), escape(&shot.domain));
        let _ = write!(html, "<tr><td>{image}<br>{domain}<br><b>{truth}</b></td>");
        for map in &shot.maps {
            let right = shot.truth.as_ref().is_none_or(|truth| *truth == map.said);
            let class = if right { "" } else { " class=\"bad\"" };
            let over = img(&map.map.over(&shot.image)?, &map.label);
            let _ = write!(html, "<td>{over}<br><span{class}>{}</span></td>", escape(&map.said));
        }
        html.push_str("</tr>");
    }
    Ok(html + "</table></div>")
}

fn img(image: &Image, name: &str) -> String {
    format!("<img alt=\"{}\" src=\"{}\">", escape(name), png_uri(image))
}

"""How things look: colours, text and numbers, formulas, Plotly figures, thumbnails."""

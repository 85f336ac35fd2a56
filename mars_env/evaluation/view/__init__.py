"""Parts of the page that shows a run: prose with formulas, programs, differences, pictures of trees."""

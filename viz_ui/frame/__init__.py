"""What stands around every page: navigation, sidebar, address, the models and passes of a visitor."""

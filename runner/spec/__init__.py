"""What is asked for: rai_build.yml, command lines, images, milestones."""
